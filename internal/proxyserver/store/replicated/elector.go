package replicated

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/suspend"
)

// DefaultTTL is how long a leader leads on when it does not reach the database.
const DefaultTTL = 5 * time.Second

// Options say how this server takes part. Database, Words, Poll and Bounds must be set.
type Options struct {
	Database  Database
	Words     Words
	Advertise string        // where clients reach this server
	TTL       time.Duration // of the lead; zero: [DefaultTTL]
	Poll      time.Duration // between two looks of a server that stands by
	Bounds    Bounds
	Log       *slog.Logger // nil: no log

	// SinceBoot is the clock of the lead. It must count on while the machine is suspended.
	// Nil: [suspend.SinceBoot]. Simulations have their own.
	SinceBoot func() time.Duration
}

// Words are what messages call things.
type Words struct {
	Database string // such as "etcd"
	Store    string // where the store is in the database
	Erase    string // how an operator deletes the store, such as "drop the schema"
}

// Elector is a [store.Election] in a database. [New] makes one.
type Elector struct {
	*client
	presence *presence
	leader   atomic.Pointer[store.Leader] // nil: it is not known
	own      [][]byte                     // values of the leader's entry from this process's leads, all of them over; only Gain uses it
}

var _ store.Election = (*Elector)(nil)

// leaderRecord is the value of the leader's entry.
type leaderRecord struct {
	Nonce string    `json:"nonce"`
	URL   string    `json:"url,omitempty"`
	Since time.Time `json:"since"`
	// TTL is how long the lead is valid. The TTL of the server that reads it may differ.
	TTL time.Duration `json:"ttl"`
}

// New returns an elector. It does not use the database yet. The caller must close the elector,
// and then the database.
func New(o Options) *Elector {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.SinceBoot == nil {
		o.SinceBoot = suspend.SinceBoot
	}
	c := &client{Options: o}
	return &Elector{client: c, presence: newPresence(c)}
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

// Close implements [store.Election].
func (e *Elector) Close() error {
	e.presence.leave()
	return nil
}

// look reads who leads.
func (e *Elector) look(ctx context.Context) (s State, err error) {
	err = Within(ctx, e.TTL/4, func(ctx context.Context) error {
		s, err = e.Database.Look(ctx)
		return err
	})
	return s, err
}

// Gain implements [store.Election]. It watches the leader's entry until there is none, or it has
// stayed the same for a full TTL of its leader. If the database refused a commit of the last lead,
// other servers have a TTL to take it first.
func (e *Elector) Gain(ctx context.Context) (_ store.Lead, err error) {
	defer func() {
		if err != nil && len(e.own) > 0 {
			// The entry may belong to a lead that never began, or that lapsed. If resign
			// fails, the standbys wait a TTL for the end of the entry.
			_ = e.resign(e.own[len(e.own)-1])
		}
	}()
	e.leader.Store(nil)
	var watched int64       // version of the leader's entry; 0: there is none, or it is not known
	var since time.Duration // when this version was first seen
	for {
		wait := e.Poll
		s, err := e.look(ctx)
		switch {
		case final(err):
			return nil, err
		case err != nil:
			watched = 0
			e.logOutage(ctx, err)
		default:
			ttl, err := e.noteState(s)
			if err != nil {
				return nil, err
			}
			if s.Leader.Version != watched {
				watched, since = s.Leader.Version, e.SinceBoot()
			}
			left := ttl - (e.SinceBoot() - since)
			if watched == 0 || e.wrote(s.Leader.Value) {
				left = 0
			}
			if left = max(left, e.leftUntil-e.SinceBoot()); left <= 0 {
				l, err := e.take(ctx, s.Leader)
				switch {
				case l != nil:
					return l, nil
				case final(err):
					return nil, err
				case err != nil:
					e.logOutage(ctx, err)
				}
			} else {
				wait = min(wait, left)
			}
			if e.presence.renewEntry(ctx) { // so what was read before is durable, too
				e.newest.note(s.Meta.Version)
			}
		}
		if err := e.Database.Wait(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// final reports whether err says that this server cannot lead, however often it tries.
func final(err error) bool {
	for _, reason := range []error{store.ErrOpen, store.ErrDamaged, store.ErrGone, store.ErrLost} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// noteState notes the leader and the store's id, and returns the TTL of the lead in s. It
// refuses a store of a later format, a store other than the one that this server knows, and one
// that has lost commits.
func (e *Elector) noteState(s State) (ttl time.Duration, err error) {
	var leader store.Leader
	ttl = e.TTL
	if s.Leader.Value != nil && !e.wrote(s.Leader.Value) {
		var r leaderRecord
		if err := json.Unmarshal(s.Leader.Value, &r); err != nil {
			return 0, fmt.Errorf("the leader's entry of %s: %w: %w", e.Words.Store, store.ErrDamaged, err)
		}
		leader.URL, leader.Since = r.URL, r.Since
		ttl = cmp.Or(r.TTL, e.TTL)
	}
	e.leader.Store(&leader)
	meta, err := e.decode(s.Meta)
	if err == nil {
		err = e.newest.check(e.client, e.newest.version.Load(), s.Meta.Version)
	}
	if err != nil || s.Meta.Value == nil {
		return ttl, err
	}
	e.noteID(meta.ID)
	return ttl, nil
}

// decode decodes meta. It returns an error if this program does not know the format, or if
// this is not the store that the server knows.
func (e *Elector) decode(found Entry) (meta metaRecord, err error) {
	if found.Value != nil {
		if err := json.Unmarshal(found.Value, &meta); err != nil {
			return meta, fmt.Errorf("meta of %s: %w: %w", e.Words.Store, store.ErrDamaged, err)
		}
		if meta.Format > format || meta.Format < 1 {
			return meta, fmt.Errorf("%w %s: it has format %d, and this program knows format %d: use the program that made it", store.ErrOpen, e.Words.Store, meta.Format, format)
		}
	}
	return meta, e.stillThere(meta.ID)
}

// stillThere returns an error if this server knows a store, and the database has another one. id
// is that of the store in the database, or empty if it has none. To serve from another store
// would grant held leases again.
func (e *Elector) stillThere(id string) error {
	known := e.ID()
	switch {
	case known == "" || known == id:
		return nil
	case id == "":
		return fmt.Errorf("store %s: %w: %s has nothing of it: restore %[3]s from a backup, or start this server anew to begin without leases", e.Words.Store, store.ErrGone, e.Words.Database)
	}
	return fmt.Errorf("store %s: %w: another store is in its place: start this server anew to serve from that", e.Words.Store, store.ErrGone)
}

// newest is the greatest version of meta that this server knows to be durable: a write of its own
// found or wrote it, or was made after the version was read. Another version that was read may be
// undone without a loss: nobody was answered.
type newest struct{ version atomic.Int64 }

// see checks and notes the version that a write has found or written. The write began when the
// greatest version was before.
func (n *newest) see(c *client, before, found int64) error {
	if err := n.check(c, before, found); err != nil {
		return err
	}
	n.note(found)
	return nil
}

// check returns an error if a transaction that began when the greatest version was before has found
// a lower one: then the database has lost commits.
func (n *newest) check(c *client, before, found int64) error {
	if found < before {
		return fmt.Errorf("store %s: %w: it is as of commit %d, and this server has seen commit %d: "+
			"leases that were granted since may be granted again, and released ones are held: restore what %s lost, or start the servers anew to go on from there",
			c.Words.Store, store.ErrLost, found, before, c.Words.Database)
	}
	return nil
}

// note notes a version that is durable.
func (n *newest) note(durable int64) {
	for old := n.version.Load(); old < durable && !n.version.CompareAndSwap(old, durable); old = n.version.Load() {
	}
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

// take takes the lead if the leader's entry is still as seen; nil if another server was faster.
// The lead is valid from before the transaction was sent.
func (e *Elector) take(ctx context.Context, seen Entry) (*lead, error) {
	l := &lead{client: e.client, nonce: newNonce()}
	record := leaderRecord{Nonce: l.nonce, URL: e.Advertise, Since: time.Now().Round(time.Millisecond).UTC(), TTL: e.TTL}
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
	began := e.SinceBoot()
	var meta Entry
	var taken bool
	err = Within(ctx, e.TTL/4, func(ctx context.Context) error {
		meta, taken, err = e.Database.Take(ctx, l.value, seen.Version)
		return err
	})
	if err != nil || !taken {
		return nil, err
	}
	if l.meta, err = e.decode(meta); err == nil {
		err = e.newest.see(e.client, e.newest.version.Load(), meta.Version)
	}
	if err != nil {
		return nil, err
	}
	l.metaVersion = meta.Version
	l.ended, l.end = context.WithCancelCause(context.Background())
	l.extend(began)
	e.leader.Store(&store.Leader{URL: record.URL, Since: record.Since})
	l.running.Go(func() { l.end(l.keep()) })
	l.running.Go(func() { e.presence.watch(l.ended) })
	l.running.Go(func() { e.Database.Maintain(l.ended) })
	return l, nil
}
