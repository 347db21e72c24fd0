package etcd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/leaseapi/suspend"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// DefaultTTL is how long a leader that etcd does not hear of leads on.
const DefaultTTL = 5 * time.Second

// Options say where etcd is, and how this server takes part. Only URL must be set.
type Options struct {
	URL       string        // as [ParseURL] takes it
	Advertise string        // where clients reach this server
	TTL       time.Duration // of the lead; zero: [DefaultTTL]
	NoCompact bool          // somebody else compacts etcd's history

	CAFile            string // PEM file; its certificates are trusted instead of the system's
	CertFile, KeyFile string // PEM files of this server's certificate for etcd
	CredentialsFile   string // holds user:password
	// ReadFile reads these files, each whenever it is needed, so that they may be
	// replaced. It must not block. Nil: [os.ReadFile].
	ReadFile func(file string) ([]byte, error)

	Log *slog.Logger // nil: no log
}

// Elector is a [store.Election] in etcd. [Open] makes one.
type Elector struct {
	*client
	url      string // of this server, for clients
	upkeep   *upkeep
	presence *presence
	leader   atomic.Pointer[store.Leader] // nil: it is not known
	own      [][]byte                     // values of the leader's key that leads of this process wrote, all over by now; Gain alone uses it
}

var (
	_ store.Election = (*Elector)(nil)
	_ store.Measurer = (*Elector)(nil)
)

// leaderRecord is the value of the leader's key.
type leaderRecord struct {
	Nonce string    `json:"nonce"`
	URL   string    `json:"url,omitempty"`
	Since time.Time `json:"since"`
	// TTL is for how long the lead holds, which may be another time than the reader's.
	TTL time.Duration `json:"ttl,omitempty"` // zero: the leader is too old to say it
}

// Open returns an elector. It does not connect.
func Open(o Options) (*Elector, error) {
	a, err := ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	var s *secure
	if a.TLS {
		if s, err = newSecure(o.CAFile, o.CertFile, o.KeyFile, o.ReadFile); err != nil {
			return nil, err
		}
	}
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	c := &client{gateway: newGateway(a, s, o.CredentialsFile, o.ReadFile), prefix: a.Prefix, ttl: o.TTL, log: o.Log}
	if c.credentials != "" {
		if _, _, err := c.readCredentials(); err != nil {
			return nil, fmt.Errorf("read the credentials of etcd: %w", err)
		}
	}
	p := newPresence(c, o.Advertise)
	return &Elector{client: c, url: o.Advertise, presence: p, upkeep: newUpkeep(c, p, o.NoCompact)}, nil
}

// Leader implements [store.Election].
func (e *Elector) Leader() store.Leader {
	var l store.Leader
	if known := e.leader.Load(); known != nil {
		l = *known
	}
	l.Standby = int(e.presence.count.Load())
	return l
}

// Size implements [store.Measurer].
func (e *Elector) Size() (total, used int64) {
	s := e.upkeep.size.Load()
	return s.Size, s.InUse
}

// Close implements [store.Election].
func (e *Elector) Close() error {
	e.presence.leave()
	e.close()
	return nil
}

// state is what etcd says of the lead.
type state struct {
	leader keyValue
	meta   keyValue
}

// look reads who leads. Both keys are read from a majority of etcd's members.
func (e *Elector) look(ctx context.Context) (s state, err error) {
	both := txnRequest{Success: []operation{get(e.leaderKey()), get(e.metaKey())}}
	var reply txnResponse
	err = within(ctx, e.ttl/4, func(ctx context.Context) error { return e.call(ctx, "/v3/kv/txn", both, &reply) })
	return state{reply.read(0), reply.read(1)}, err
}

// pollEvery is how often a server that stands by looks whether somebody leads.
func (e *Elector) pollEvery() time.Duration { return min(e.ttl/20, 200*time.Millisecond) }

// Gain implements [store.Election]: it watches the leader's key until that is gone,
// or stays the same for a full TTL of that leader.
func (e *Elector) Gain(ctx context.Context) (store.Lead, error) {
	e.leader.Store(nil)
	var watched int64       // revision of the leader's key
	var since time.Duration // from when on it is known
	for {
		s, err := e.look(ctx)
		if err != nil {
			watched = 0
			e.noteTrouble(err)
		} else {
			ttl, err := e.understand(s)
			if err != nil {
				return nil, err
			}
			if s.leader.ModRevision != watched {
				watched, since = s.leader.ModRevision, suspend.SinceBoot()
			}
			if watched == 0 || e.wrote(s.leader.Value) || suspend.SinceBoot()-since >= ttl {
				l, err := e.take(ctx, s.leader)
				switch {
				case l != nil:
					return l, nil
				case err != nil:
					e.noteTrouble(err)
				}
			}
			e.presence.stay(ctx)
		}
		if err := sleep(ctx, e.pollEvery()); err != nil {
			return nil, err
		}
	}
}

// understand notes what s says, and returns for how long the lead in it holds. It refuses
// a store of a later format, and another store than the one that this server knows.
func (e *Elector) understand(s state) (ttl time.Duration, err error) {
	var leader store.Leader
	ttl = e.ttl
	if s.leader.Value != nil && !e.wrote(s.leader.Value) {
		var r leaderRecord
		if err := json.Unmarshal(s.leader.Value, &r); err != nil {
			return 0, fmt.Errorf("%s: %w: it is no key of a leader: %w", e.leaderKey(), store.ErrDamaged, err)
		}
		leader.URL, leader.Since = r.URL, r.Since
		ttl = cmp.Or(r.TTL, e.ttl)
	}
	e.leader.Store(&leader)
	if s.meta.Value == nil {
		return ttl, e.stillThere("")
	}
	var meta metaRecord
	if err := json.Unmarshal(s.meta.Value, &meta); err != nil {
		return 0, fmt.Errorf("%s: %w: %w", e.metaKey(), store.ErrDamaged, err)
	}
	if meta.Format > format || meta.Format < 1 {
		return 0, fmt.Errorf("%w %s: it has format %d, and this program knows format %d: use the program that made it", store.ErrOpen, e.prefix, meta.Format, format)
	}
	if err := e.stillThere(meta.ID); err != nil {
		return 0, err
	}
	e.noteID(meta.ID)
	return ttl, nil
}

// stillThere returns an error if this server knows a store and etcd has another one, with
// that id, or none: then the id is empty. Leases that are held would be granted again.
func (e *Elector) stillThere(id string) error {
	known := e.ID()
	switch {
	case known == "" || known == id:
		return nil
	case id == "":
		return fmt.Errorf("store %s: %w: etcd has no keys of it any more: restore etcd from a backup, or start this server anew to begin without leases", e.prefix, store.ErrGone)
	}
	return fmt.Errorf("store %s: %w: another store is in its place: start this server anew to serve from that", e.prefix, store.ErrGone)
}

// wrote reports whether a lead of this process wrote value. Such a lead is over, so
// nobody needs to wait for its end.
func (e *Elector) wrote(value []byte) bool {
	for _, own := range e.own {
		if bytes.Equal(own, value) {
			return true
		}
	}
	return false
}

// take takes the lead from who had the leader's key as seen; nil if somebody was
// faster. The lead counts from before the transaction was sent.
func (e *Elector) take(ctx context.Context, seen keyValue) (*lead, error) {
	l := &lead{client: e.client, nonce: newNonce()}
	record := leaderRecord{Nonce: l.nonce, URL: e.url, Since: time.Now().Round(time.Millisecond).UTC(), TTL: e.ttl}
	var err error
	if l.value, err = json.Marshal(record); err != nil {
		return nil, err
	}
	// If the answer is lost, the next look finds this value, and the lead that
	// never began is taken at once.
	e.own = append(e.own, l.value)
	if len(e.own) > 8 { // copies are not delayed for that long
		e.own = e.own[1:]
	}
	unchanged := compare{Key: e.leaderKey(), Target: compareMod, ModRevision: seen.ModRevision}
	if seen.ModRevision == 0 {
		unchanged = compare{Key: e.leaderKey(), Target: compareCreate}
	}
	txn := txnRequest{Compare: []compare{unchanged}, Success: []operation{put(e.leaderKey(), l.value), get(e.metaKey())}}
	began := suspend.SinceBoot()
	var reply txnResponse
	err = within(ctx, e.ttl/4, func(ctx context.Context) error { return e.call(ctx, "/v3/kv/txn", txn, &reply) })
	if err != nil || !reply.Succeeded {
		return nil, err
	}
	l.ended, l.end = context.WithCancelCause(context.Background())
	l.extend(began)
	meta := reply.read(1)
	if meta.Value != nil {
		if err := json.Unmarshal(meta.Value, &l.meta); err != nil {
			return nil, err // it was understood a moment ago
		}
		l.metaRevision = meta.ModRevision
	}
	if err := e.stillThere(l.meta.ID); err != nil {
		return nil, err
	}
	e.leader.Store(&store.Leader{URL: record.URL, Since: record.Since})
	l.running.Go(func() { l.end(e.keep(l)) })
	l.running.Go(func() { e.upkeep.run(l.ended, reply.Header.Revision) })
	return l, nil
}

// keep writes the leader's key anew every quarter of the TTL until the lead is
// over, and returns why it is. An attempt that hangs does not hold up the next
// one, which may reach another member.
func (e *Elector) keep(l *lead) error {
	ctx, cancel := context.WithCancel(l.ended)
	attempts := make(chan error, 4) // none is under way for longer than a TTL
	under := 0
	defer func() {
		cancel()
		for range under {
			<-attempts
		}
	}()
	ticker := time.NewTicker(e.ttl / 4)
	defer ticker.Stop()
	for {
		lapse := time.NewTimer(l.remaining())
		select {
		case <-l.ended.Done():
		case <-lapse.C:
		case <-ticker.C:
			under++
			go func() { attempts <- within(ctx, e.ttl, l.rewrite) }()
		case err := <-attempts:
			under--
			if errors.Is(err, store.ErrNotLeader) {
				return err
			}
			if err != nil {
				e.noteTrouble(err)
			}
		}
		lapse.Stop()
		if err := l.Holds(); err != nil {
			return err
		}
	}
}
