package etcd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/leaseapi/suspend"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// DefaultTTL is how long a leader leads on when it does not reach etcd.
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
	// ReadFile reads these files. A file is read whenever it is needed, so that it may be
	// replaced. ReadFile must not block. Nil: [os.ReadFile].
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
	own      [][]byte                     // values of the leader's key from this process's leads, all of them over; only Gain uses it
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
	// TTL is how long the lead is valid. The TTL of the server that reads it may differ.
	TTL time.Duration `json:"ttl,omitempty"` // zero: the leader's program is too old to write it
}

// Open returns an elector. It checks that the files that it needs can be read, but does not
// connect to etcd. The caller must close the elector.
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

// state has the two keys that tell who leads, and in which store.
type state struct {
	leader keyValue
	meta   keyValue
}

// look reads who leads. It reads both keys at once, as a majority of etcd's members has them.
func (e *Elector) look(ctx context.Context) (s state, err error) {
	both := txnRequest{Success: []operation{get(e.leaderKey()), get(e.metaKey())}}
	var reply txnResponse
	err = within(ctx, e.ttl/4, func(ctx context.Context) error { return e.call(ctx, "/v3/kv/txn", both, &reply) })
	return state{reply.read(0), reply.read(1)}, err
}

// pollEvery returns the time between two looks of a server that stands by.
func (e *Elector) pollEvery() time.Duration { return min(e.ttl/20, 200*time.Millisecond) }

// Gain implements [store.Election]. It watches the leader's key until the key is gone, or has
// stayed the same for a full TTL of its leader.
func (e *Elector) Gain(ctx context.Context) (_ store.Lead, err error) {
	defer func() {
		if err != nil && len(e.own) > 0 {
			// The key may belong to a lead that never began, or that lapsed. If resign
			// fails, the standbys wait a TTL for the end of the key.
			_ = e.resign(e.own[len(e.own)-1])
		}
	}()
	e.leader.Store(nil)
	var watched int64       // revision of the leader's key; 0: there is none, or it is not known
	var since time.Duration // when this revision was first seen
	for {
		s, err := e.look(ctx)
		if err != nil {
			watched = 0
			e.noteTrouble(ctx, err)
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
					e.noteTrouble(ctx, err)
				}
			}
			e.presence.stay(ctx)
		}
		if err := sleep(ctx, e.pollEvery()); err != nil {
			return nil, err
		}
	}
}

// understand notes the leader and the store's id, and returns the TTL of the lead in s. It
// refuses a store of a later format, and a store other than the one that this server knows.
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

// stillThere returns an error if this server knows a store, and etcd has another one. id is
// that of the store in etcd, or empty if etcd has none. To serve from another store would
// grant held leases again.
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

// take takes the lead if the leader's key is still as seen; nil if another server was faster.
// The lead is valid from before the transaction was sent.
func (e *Elector) take(ctx context.Context, seen keyValue) (*lead, error) {
	l := &lead{client: e.client, nonce: newNonce()}
	record := leaderRecord{Nonce: l.nonce, URL: e.url, Since: time.Now().Round(time.Millisecond).UTC(), TTL: e.ttl}
	var err error
	if l.value, err = json.Marshal(record); err != nil {
		return nil, err
	}
	// If the answer is lost, the next look may find this value. Gain then takes the lead
	// again at once, because the lead of this value never began.
	e.own = append(e.own, l.value)
	if len(e.own) > 8 { // no copy of an older transaction is delayed for that long
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
			return nil, err // unlikely: understand has just decoded this key
		}
		l.metaRevision = meta.ModRevision
	}
	if err := e.stillThere(l.meta.ID); err != nil {
		return nil, err
	}
	e.leader.Store(&store.Leader{URL: record.URL, Since: record.Since})
	l.running.Go(func() { l.end(l.keep()) })
	l.running.Go(func() { e.upkeep.run(l.ended, reply.Header.Revision) })
	return l, nil
}
