package holder

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/internal/holder/keeper"
	"github.com/leasectl/leasectl/internal/holder/usage"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Request says what to acquire.
type Request struct {
	leaseapi.Ask        // of a shared lease: a Type, and how much
	Proxy        string // "": that of the options

	// Handle is the handle to write the names into. Private says that nobody else has been told
	// of this handle.
	Handle  lockfile.Handle
	Private bool
	// Replaces tells, by the record of Handle, whether the request may replace the leases or
	// the waiting request that Handle has. They are given back under the lock under which the
	// new request is written, so no other process sees a handle that neither holds nor waits.
	// If Replaces is nil or returns false, a handle in use is [ErrHeld].
	Replaces func(lockfile.Record) bool
	// List is the list of names that outlives the step, for the scope of
	// a test; "" is none.
	List lockfile.List

	Jitter      time.Duration // upper bound of a random delay before asking
	WaitTimeout time.Duration // how long to queue, jitter not counted; zero asks once
	TTL         time.Duration // zero: the pool's own

	// Around is the path of the handle of the exec that this process runs under; "" is none.
	// The request may have to wait for the lease of that exec.
	Around string

	// Outlives says that the lease outlives this process: after a kill, recover keeps the names
	// in the handle, which are then its user's.
	Outlives bool

	Owner string // "": that of the options

	Terms lockfile.Terms // what the user said, for a reacquire to repeat
}

// Acquire takes leases into a handle, for this process alone. It blocks for the jitter and then at most for the wait
// timeout, and some seconds more if the proxy does not answer. If ctx ends, it stops and
// returns the cause of ctx.
//
// Errors are [usage.Err], [ErrHeld], [ErrReplaced], those of [proxyclient.Client.Acquire], and
// those of files. After an error no lease is held; if one may be held all the same, the journal
// has its request, and the error says so.
func (h *Holder) Acquire(ctx context.Context, r Request) (*Lease, error) {
	l, err := h.intend(ctx, r)
	if err != nil {
		return nil, err
	}
	failpoint.Here("intent-written")
	if err := l.enqueueInHandle(ctx, r.Replaces); err != nil {
		return nil, l.rollback(ctx, err)
	}
	l.phase = enqueued
	failpoint.Here("request-in-handle")
	if err := l.awaitGrant(ctx, r); err != nil {
		return nil, l.rollback(ctx, err)
	}
	if err := l.recordGrant(ctx); err != nil {
		return nil, l.rollback(ctx, err)
	}
	return l, nil
}

// intend writes the request into the journal before it is sent. First it settles the entries of
// dead processes, since one of them may be about the same handle.
func (h *Holder) intend(ctx context.Context, r Request) (*Lease, error) {
	proxy := cmp.Or(r.Proxy, h.Dialer.URL)
	name, err := h.Dialer.Name(proxy)
	if err != nil {
		return nil, err
	}
	if r.List != "" {
		if string(r.List) == r.Handle.Path() {
			return nil, usage.Errorf("--handle %q: that is the list of the names of all handles: choose another file", r.Handle.Path())
		}
		if err := checkList(ctx, r.List); err != nil {
			return nil, err
		}
	}
	p, err := h.Dialer.Dial(ctx, proxy)
	if err != nil {
		return nil, err
	}
	l := &Lease{
		h: h, handle: r.Handle, proxy: p, private: r.Private, around: r.Around,
		kind: lockfile.KindExec, record: h.queuedRecord(ctx, r, name),
	}
	if r.Outlives {
		l.kind = lockfile.KindAcquire
	}
	h.settleDead(ctx, name)
	return l, h.Journal.Begin(ctx, l.record.Intent(l.record.RequestID, l.kind, l.handle.Path()))
}

// queuedRecord returns the record of a handle with a request to the named proxy.
func (h *Holder) queuedRecord(ctx context.Context, r Request, proxy string) lockfile.Record {
	terms := r.Terms
	if terms.OwnerPID != 0 {
		terms.OwnerSpace = keeper.Space()
	}
	return h.Dialer.Seal(lockfile.Record{
		State:      lockfile.HandleQueued,
		RequestID:  rand.Text(),
		Owner:      h.ownerOf(r.Owner),
		Ask:        r.Ask,
		Terms:      terms,
		Proxy:      proxy,
		TTL:        r.TTL,
		SharedList: string(r.List),
		Within:     h.Journal.Within,
	})
}

// enqueueInHandle writes the request into the handle. What the handle had before is given back
// first, or ends when the proxy takes the request: see [Lease.swaps].
func (l *Lease) enqueueInHandle(ctx context.Context, replaces func(lockfile.Record) bool) error {
	if l.private {
		return nil
	}
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	g := releasing{h: l.h, to: l.itsProxy, learned: l.handle.Modified(), replacing: true, asked: true}
	err := l.handle.Update(ctx, func(tx *lockfile.Tx) error {
		before := tx.Record
		if before.State != "" && (replaces == nil || !replaces(before)) {
			if !l.h.ended(ctx, before) {
				return heldError(l.handle.Path(), before)
			}
			g.over = append(g.over, before.RequestID)
			before = lockfile.Record{}
		}
		if before.State != "" {
			swaps, err := l.swaps(ctx, before)
			if err != nil {
				return fmt.Errorf("release %s: %w", before.Describe(), err)
			}
			if swaps {
				l.replaced, l.record.Store, l.record.Taker = before, before.Store, before.Taker
				l.record.Replaces, l.record.ReplacesOf = before.Leases, before.RequestID
			} else if err := g.all(ctx, tx); err != nil {
				return err
			}
			failpoint.Here("replaced-released")
		}
		tx.Record, l.mayBeInHandle = l.record, true
		return nil
	})
	g.settle(err)
	if err == nil && len(g.released) > 0 {
		l.h.Reporter.Debugf("released %v before acquiring again", g.released)
	}
	return err
}

// swaps tells whether the request can replace the lease of the handle's record in one step: the proxy
// granted the lease and is leasectl's own, the request has room for the names, and the release has
// nothing to tell but that it is over. The record must be ours: what is replaced goes by name and
// generation, which a stranger can guess.
func (l *Lease) swaps(ctx context.Context, r lockfile.Record) (bool, error) {
	tells := l.h.endings.of(r.RequestID) != ending{}
	if r.State != lockfile.HandleHeld || !lockfile.Certain(r.Leases) || r.Adapter != "" || r.Owner != l.record.Owner || tells {
		return false, nil
	}
	if !l.h.Journal.Covers(r.RequestID) && !l.h.Dialer.Sealed(r) {
		return false, nil
	}
	if len(r.Leases) > leaseapi.MaxReplaces {
		return false, nil
	}
	p, err := l.itsProxy(ctx, r)
	if err != nil || p != l.proxy {
		return false, err
	}
	if r.Taker != (leaseapi.Caller{}) && !l.h.Journal.Covers(r.RequestID) {
		if caller, err := p.Caller(ctx); err != nil || caller != r.Taker && caller != (leaseapi.Caller{}) {
			return false, err // a request in the place of a lease that the proxy does not show would not end it
		}
	}
	return true, nil
}

// itsProxy returns the proxy to which the release of what the handle had is sent: the recorded one,
// unless the request's own proxy is proven to be the same. Another proxy that the user named does
// not know the lease, and a version-1 proxy could not say so.
func (l *Lease) itsProxy(ctx context.Context, r lockfile.Record) (*v1.Proxy, error) {
	if r.Proxy == "" || r.Proxy == l.proxy.Address {
		return l.proxy, l.checkStore(ctx, r)
	}
	store, err := l.h.Dialer.AskStore(ctx, l.proxy, r.Store)
	if err != nil {
		return nil, err // nor could it grant another lease
	}
	if store != "" && store == r.Store {
		return l.proxy, nil
	}
	proxy, err := l.h.Dialer.Recorded(r)
	if err != nil {
		return nil, err
	}
	return l.h.Dialer.Dial(ctx, proxy)
}

// checkStore returns an error if a request to the proxy in the place of the lease of a record would leave the lease at
// another server.
func (l *Lease) checkStore(ctx context.Context, r lockfile.Record) error {
	if _, err := l.h.Dialer.AskStore(ctx, l.proxy, r.Store); err != nil {
		return err
	}
	_, err := l.h.Dialer.Settles(l.proxy, r.Store, r.Proxy)
	return err
}

// lookTime bounds the question whether the lease of a handle has ended.
const lookTime = 2 * time.Second

// ended tells whether the lease that a handle holds is known to have ended: it was given back by
// its name, or lost.
func (h *Holder) ended(ctx context.Context, r lockfile.Record) bool {
	if r.State != lockfile.HandleHeld || r.Bare() {
		return false
	}
	if r.Adapter != "" {
		holds, err := h.Dialer.Adapter.HoldsAny(r.Proxy, r.Leases)
		return err == nil && !holds && r.Adapter == h.Dialer.Adapter.ID()
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	p, err := h.Dialer.DialRecorded(ctx, r)
	if err != nil {
		return false
	}
	state, err := p.RequestState(ctx, r.RequestID)
	return err == nil && state.State == leaseapi.StateEnded
}

// heldError says what a handle is doing and how to go on.
func heldError(path string, r lockfile.Record) error {
	switch r.State {
	case lockfile.HandleQueued:
		return fmt.Errorf("handle %s already waits for a lease of type %q: %w: release it, or use leasectl reacquire", path, r.Type, ErrHeld)
	case lockfile.HandleReleasing:
		return fmt.Errorf("handle %s has a release that the proxy has not confirmed: %w: release it again, or use leasectl reacquire", path, ErrHeld)
	}
	return fmt.Errorf("handle %s already holds %v: %w: release it, or use leasectl reacquire", path, r.Names(), ErrHeld)
}

// recordGrant writes the granted names into the handle, if the handle still waits for this
// lease, and into the list of names.
func (l *Lease) recordGrant(ctx context.Context) error {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	l.record.State, l.record.Replaces, l.record.ReplacesOf = lockfile.HandleHeld, nil, ""
	l.record.AcquiredAt = time.Now().UTC().Round(time.Millisecond)
	l.record.TTL, l.record.Units = l.grant.TTL, l.grant.Units
	l.record.Leases, l.record.Adapter = l.grant.Leases, l.grant.Adapter
	l.record.Store, l.record.Taker = l.h.Dialer.StoreOf("", l.record.Proxy), l.grant.Caller
	l.h.Journal.Granted(l.record)
	err := l.handle.Update(ctx, func(tx *lockfile.Tx) error {
		if !l.awaitedIn(tx.Record) {
			return ErrReplaced
		}
		tx.Record = l.record
		return nil
	})
	if err != nil {
		return err
	}
	l.phase = recorded
	failpoint.Here("names-in-handle")
	l.sayReplaced(ctx)
	if list := lockfile.List(l.record.SharedList); list != "" {
		return list.Append(ctx, grantsFor(l.record))
	}
	return nil
}

// grantsFor returns the leases of a record as they stand in a list, which others may read.
func grantsFor(r lockfile.Record) []lockfile.Grant {
	grants := r.Grants()
	for i := range grants {
		if dial.IsStoreID(r.Store) {
			grants[i].Proxy = proxyclient.Redacted(r.Proxy)
		}
	}
	return grants
}

// sayReplaced ends what is left of the leases that the request has replaced.
func (l *Lease) sayReplaced(ctx context.Context) {
	if l.replaced.RequestID == "" {
		return
	}
	if fresh, _ := l.h.Dialer.Settles(l.proxy, l.replaced.Store, l.replaced.Proxy); fresh {
		l.h.sayFresh(l.replaced.Describe())
		l.grant.Stale = nil // what the new store says of them
	}
	for _, lost := range l.grant.Stale {
		l.h.Reporter.Notef("%s was lost before it was released: %s", lost.Name, leaseapi.Printable(lost.Reason))
	}
	l.h.Reporter.Debugf("released %v with this acquire", l.replaced.Names())
	l.h.unlist(ctx, l.replaced, l.replaced.Leases)
	l.h.over(l.replaced.RequestID)
	l.replaced = lockfile.Record{}
}

// rollback undoes the steps that led to the phase of a lease that could not be taken or handed
// over because of err. It returns err, joined with its own failure if it has one. It removes
// the request from the handle, unless another process has replaced that request. The journal
// keeps a request whose outcome is unclear.
func (l *Lease) rollback(ctx context.Context, err error) error {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	var failed error
	unclear := errors.Is(err, proxyclient.ErrUnconfirmed)
	switch l.phase {
	case intended:
		unclear = false // nothing was sent
		if l.mayBeInHandle {
			failed = l.forget(ctx)
		}
	case enqueued: // the client has withdrawn the request at the proxy
		failed = l.forget(ctx)
	case granted:
		_, failed = l.h.sendRelease(ctx, l.proxy, l.handle.Path(), lockfile.Record{
			State: lockfile.HandleReleasing, RequestID: l.record.RequestID, Owner: l.record.Owner, Proxy: l.record.Proxy,
			Leases: l.grant.Leases, Adapter: l.grant.Adapter, Taker: l.grant.Caller, Store: l.record.Store,
		})
		failed = errors.Join(failed, l.forget(ctx))
	case recorded: // if the handle was taken over, its new owner releases these names
		_, failed = l.Release(ctx)
	}
	if failed != nil || unclear {
		l.h.Journal.Leave(l.record.RequestID)
	} else {
		l.h.Journal.Settle(l.record.RequestID)
	}
	if failed != nil {
		return fmt.Errorf("%w; and giving back failed: %w", err, failed)
	}
	return err
}

// forget removes the request from the handle, if the handle still has it. The leases that the
// request was to replace stay in the handle if the proxy has not taken the request; otherwise they
// have ended, and a release makes sure of it.
func (l *Lease) forget(ctx context.Context) error {
	if l.private {
		return nil
	}
	over := false
	err := l.handle.Update(ctx, func(tx *lockfile.Tx) error {
		switch {
		case !l.awaitedIn(tx.Record):
		case l.replaced.RequestID == "":
			tx.Record = lockfile.Record{}
		case !l.taken:
			tx.Record = l.replaced
		default:
			if _, err := l.h.sendRelease(ctx, l.proxy, tx.Path(), tx.Record); err != nil {
				tx.State = lockfile.HandleReleasing
				return errors.Join(err, tx.Save())
			}
			tx.Record, over = lockfile.Record{}, true
		}
		return nil
	})
	if over {
		l.h.unlist(ctx, l.replaced, l.replaced.Leases)
		l.h.over(l.replaced.RequestID)
	}
	return err
}
