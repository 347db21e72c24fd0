package holder

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Request says what to acquire.
type Request struct {
	Type  string
	Count int    // leases, all of them or none
	Proxy string // "" is that of the options

	// Handle is where the names are to be written. Private says that nobody
	// else has been told of it.
	Handle  lockfile.Handle
	Private bool
	// Replaces tells by its record whether what the handle holds is given back
	// first, under the same lock: no third process ever sees a handle that
	// neither holds nor waits. Nil replaces nothing.
	Replaces func(lockfile.Record) bool
	// SharedList is the list of names that outlives the step, for the scope of
	// a test; "" is none.
	SharedList lockfile.List

	Jitter      time.Duration // upper bound of a random delay before asking
	WaitTimeout time.Duration // how long to queue, jitter not counted; zero asks once
	TTL         time.Duration // zero: the pool's own

	// Outlives says that the lease is not for the life of this process: if
	// that is killed once the handle has the names, the handle's user has them.
	Outlives bool
}

// Acquire takes leases into a handle. It blocks for the jitter and at most the
// wait timeout (and some seconds for a proxy that does not answer); ctx ends both,
// and its cause is returned.
//
// Errors are [ErrInvalid], [ErrHeld], [ErrSuperseded], those of
// [proxyclient.Client.Acquire], and those of files. After an error nothing is
// held, or what may be is in the journal and in the error.
func (h *Holder) Acquire(ctx context.Context, r Request) (*Lease, error) {
	l, err := h.intend(ctx, r)
	if err != nil {
		return nil, err
	}
	failpoint("intent-written")
	if err := l.enqueueInHandle(ctx, r.Replaces); err != nil {
		h.journal.settle(l.record.RequestID) // nothing was sent
		return nil, err
	}
	l.phase = enqueued
	failpoint("request-in-handle")
	err = l.awaitGrant(ctx, r)
	failpoint("acquire-answered")
	if err == nil {
		err = l.recordGrant(ctx)
	}
	if err == nil && !r.Outlives && l.aged() {
		err = l.confirm(ctx)
	}
	if err != nil {
		return nil, l.rollback(ctx, err)
	}
	return l, nil
}

// intend writes down in the journal that the request is about to be made. First
// it settles what the dead have left: one of them may have the handle.
func (h *Holder) intend(ctx context.Context, r Request) (*Lease, error) {
	proxy := r.Proxy
	if proxy == "" {
		proxy = h.dialer.URL
	}
	name, err := h.dialer.name(proxy)
	if err != nil {
		return nil, err
	}
	if r.SharedList != "" && string(r.SharedList) == r.Handle.Path() {
		return nil, invalidf("--handle %q: that is the list of the names of all handles: choose another file", r.Handle.Path())
	}
	client, err := h.dialer.dial(ctx, proxy)
	if err != nil {
		return nil, err
	}
	l := &Lease{h: h, handle: r.Handle, client: client, private: r.Private, record: lockfile.Record{
		State:      lockfile.StateQueued,
		RequestID:  rand.Text(),
		Owner:      h.owner(),
		Type:       r.Type,
		Count:      r.Count,
		Proxy:      name,
		TTL:        r.TTL,
		SharedList: string(r.SharedList),
	}}
	h.settleOwn(ctx, name)
	kind := lockfile.KindExec
	if r.Outlives {
		kind = lockfile.KindAcquire
	}
	return l, h.journal.begin(ctx, intentOf(l.record.RequestID, kind, l.handle, l.record))
}

// enqueueInHandle writes the request into the handle, after it has given back
// what the handle held before.
func (l *Lease) enqueueInHandle(ctx context.Context, replaces func(lockfile.Record) bool) error {
	if l.private {
		return nil
	}
	<-l.h.listening
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var owed []lockfile.Owed
	err := l.handle.Update(ctx, func(tx *lockfile.Tx) error {
		if l.h.releasedElsewhere(tx.Record) {
			tx.Record = lockfile.Record{}
		}
		if tx.State != "" && (replaces == nil || !replaces(tx.Record)) {
			return heldError(l.handle.Path(), tx.Record)
		}
		if bareHandle(tx.Record) {
			var err error
			if tx.Record, err = l.h.identify(ctx, l.h.namedIn(l.handle, tx.Record)); err != nil {
				return err
			}
		}
		if err := l.h.leftToKeeper(tx.Record); err != nil {
			return err
		}
		owed = owedBy(tx.Record)
		tx.Record = l.record
		tx.Owed = owed
		if len(owed) == 0 {
			return nil
		}
		if err := tx.Save(); err != nil {
			return err
		}
		failpoint("replaced-in-handle")
		released, err := l.h.releaseOwed(ctx, tx, false, l.h.toTheirProxies)
		if err != nil {
			tx.Record = lockfile.Record{State: lockfile.StateReleasing, Owed: tx.Owed}
			return errors.Join(err, tx.Save())
		}
		failpoint("replaced-released")
		l.h.report.Debugf("released %v before acquiring again", released)
		return nil
	})
	if err == nil {
		l.h.settle(owed)
	}
	return err
}

// heldError says what a handle is doing and how to go on.
func heldError(path string, r lockfile.Record) error {
	switch r.State {
	case lockfile.StateQueued:
		return fmt.Errorf("handle %s already waits for a lease of type %q: %w: release it, or use leasectl reacquire", path, r.Type, ErrHeld)
	case lockfile.StateReleasing:
		return fmt.Errorf("handle %s has a release that did not reach the proxy yet: %w: release it again, or use leasectl reacquire", path, ErrHeld)
	}
	return fmt.Errorf("handle %s already holds %v: %w: release it, or use leasectl reacquire", path, r.Names(), ErrHeld)
}

// stands tells by its record whether the handle still waits for this lease.
func (l *Lease) stands(r lockfile.Record) bool {
	if l.private {
		return r.State == ""
	}
	return l.Is(r)
}

// awaitGrant asks the proxy and blocks until it grants, the wait timeout is
// over, or another process takes the handle. No lock is held meanwhile.
func (l *Lease) awaitGrant(ctx context.Context, r Request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	if !l.private {
		watch.Go(func() {
			if l.handle.Watch(ctx, l.stands) == nil {
				cancel(ErrSuperseded)
			}
		})
	}
	<-l.h.listening
	if r.Jitter > 0 {
		d := mathrand.N(r.Jitter + 1)
		l.h.report.Notef("jitter: asking for the lease in %s", leaseapi.Duration(d.Round(time.Second)))
		if err := proxyclient.Sleep(ctx, d); err != nil {
			return err
		}
	}
	grant, err := l.ask(ctx, r)
	switch cause := context.Cause(ctx); {
	case err == nil:
		l.phase, l.grant, l.deadline = granted, grant, grant.Deadline()
		return nil
	case errors.Is(err, proxyclient.ErrEnded):
		return ErrSuperseded // a release of the handle says so to the proxy first
	case cause != nil && errors.Is(err, proxyclient.ErrUnconfirmed):
		return fmt.Errorf("%w: %w", cause, err)
	case cause != nil:
		return cause
	}
	return err
}

// ask sends the request, and reports the wait.
func (l *Lease) ask(ctx context.Context, r Request) (*proxyclient.Grant, error) {
	wait := &Wait{Type: r.Type, RequestID: l.record.RequestID, Begun: time.Now()}
	defer l.h.report.Waiting(wait)()
	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer stop()
	asked.Go(func() { l.askForPlace(asking, wait) })
	failpoint("acquire-unsent")
	return l.client.Acquire(ctx, proxyclient.Request{
		Type:      r.Type,
		Count:     r.Count,
		Owner:     l.record.Owner,
		RequestID: l.record.RequestID,
		TTL:       r.TTL,
		Wait:      r.WaitTimeout,
		OnQueued:  wait.tell,
		OnRetry:   func(err error) { l.h.report.Debugf("%v: trying again", err) },
	})
}

// askForPlaceAfter is when a wait is worth a further request: most waits are
// shorter.
const askForPlaceAfter = 2 * time.Second

// askForPlace asks once for the place in the queue, since the proxy tells it by
// itself only after its first slice.
func (l *Lease) askForPlace(ctx context.Context, wait *Wait) {
	if proxyclient.Sleep(ctx, askForPlaceAfter) != nil {
		return
	}
	state, err := l.client.RequestState(ctx, l.record.RequestID)
	if _, at := wait.Queued(); err != nil || state.State != leaseapi.StateQueued || !at.IsZero() {
		return
	}
	wait.tell(leaseapi.Queued{Place: state.Place, Length: state.Length, Estimate: state.Estimate})
}

// recordGrant writes what was granted into the handle, if its request still
// stands, and into the shared list.
func (l *Lease) recordGrant(ctx context.Context) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	l.record.State = lockfile.StateHeld
	l.record.AcquiredAt = time.Now().UTC().Round(time.Millisecond)
	l.record.TTL = l.grant.TTL
	for _, lease := range l.grant.Leases {
		l.record.Leases = append(l.record.Leases, lockfile.Lease(lease))
	}
	l.record.Store = l.h.dialer.storeOf("", l.record.Proxy)
	if err := l.h.history.add(ctx, l.handle, l.record); err != nil {
		return err
	}
	failpoint("grant-in-history")
	err := l.handle.Update(ctx, func(tx *lockfile.Tx) error {
		if !l.stands(tx.Record) {
			return ErrSuperseded
		}
		tx.Record = l.record
		return nil
	})
	if err != nil {
		return err
	}
	l.phase = recorded
	failpoint("names-in-handle")
	if list := lockfile.List(l.record.SharedList); list != "" {
		grants := grantsOf(l.record.Leases, l.record.Store, l.record.RequestID)
		for i := range grants {
			grants[i].Owner, grants[i].At = l.record.Owner, l.record.AcquiredAt
		}
		return list.Append(ctx, grants)
	}
	return nil
}

// rollback ends a lease that could not be taken, or handed over, because of err:
// it undoes what its phase has done, and returns err. The handle forgets the
// request unless another process has replaced it. What stays unclear stays in the
// journal.
func (l *Lease) rollback(ctx context.Context, err error) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var failed error
	switch l.phase {
	case intended:
	case enqueued: // at the proxy the client has taken the request back
		if !l.private {
			failed = l.forget(ctx)
		}
	case granted:
		_, failed = l.client.Release(ctx, proxyclient.Releasing(l.grant.Leases, l.record.Owner))
		if failed == nil {
			l.h.history.giveBack(ctx, l.record.Leases, l.record.Store, l.record.RequestID)
		}
		failed = errors.Join(failed, l.forget(ctx))
	case recorded: // if the handle was taken over, its new owner releases these names
		_, failed = l.Release(ctx)
	}
	if failed != nil || errors.Is(err, proxyclient.ErrUnconfirmed) {
		l.h.journal.leave(l.record.RequestID)
	} else {
		l.h.journal.settle(l.record.RequestID)
	}
	if failed != nil {
		return fmt.Errorf("%w; and giving back failed: %w", err, failed)
	}
	return err
}

// forget removes the request from its handle, which holds nothing for it.
func (l *Lease) forget(ctx context.Context) error {
	return l.handle.Update(ctx, func(tx *lockfile.Tx) error {
		if l.Is(tx.Record) {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
}
