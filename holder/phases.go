package holder

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// acquire takes leases into a handle, for this process alone.
func (h *Holder) acquire(ctx context.Context, r Request) (*Lease, error) {
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
	proxy := cmp.Or(r.Proxy, h.dialer.URL)
	name, err := h.dialer.name(proxy)
	if err != nil {
		return nil, err
	}
	if r.SharedList != "" {
		if string(r.SharedList) == r.Handle.Path() {
			return nil, invalidf("--handle %q: that is the list of the names of all handles: choose another file", r.Handle.Path())
		}
		if err := checkList(ctx, r.SharedList); err != nil {
			return nil, err
		}
	}
	client, err := h.dialer.dial(ctx, proxy)
	if err != nil {
		return nil, err
	}
	l := &Lease{
		h: h, handle: r.Handle, client: client, private: r.Private, around: r.Around,
		kind: lockfile.KindExec, record: h.queuedRecord(r, name),
	}
	if r.Outlives {
		l.kind = lockfile.KindAcquire
	}
	h.settleDead(ctx, name)
	return l, h.journal.begin(ctx, intentOf(l.record.RequestID, l.kind, l.handle, l.record))
}

// queuedRecord returns the record of a handle with a request to the named proxy.
func (h *Holder) queuedRecord(r Request, proxy string) lockfile.Record {
	record := lockfile.Record{
		State:      lockfile.StateQueued,
		RequestID:  rand.Text(),
		Owner:      h.ownerOf(r.owner),
		Type:       r.Type,
		Count:      r.Count,
		Key:        r.Key,
		Proxy:      proxy,
		TTL:        r.TTL,
		SharedList: string(r.SharedList),
	}
	if r.Items != nil {
		record.HasItems, record.Items = true, *r.Items
	}
	return record
}

// enqueueInHandle writes the request into the handle, and gives back the leases that the
// handle had before.
func (l *Lease) enqueueInHandle(ctx context.Context, replaces func(lockfile.Record) bool) error {
	if l.private {
		return nil
	}
	<-l.h.listening
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var owed, unconfirmed []lockfile.Owed
	err := l.handle.Update(ctx, func(tx *lockfile.Tx) (err error) {
		if owed, err = l.owedWhenReplaced(ctx, tx.Record, replaces); err != nil {
			return err
		}
		tx.Record, l.mayBeInHandle = l.record, true
		tx.Owed = owed
		if len(owed) > 0 {
			unconfirmed, err = l.releaseReplaced(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	l.h.listUnconfirmed(ctx, l.handle, unconfirmed)
	if len(unconfirmed) > 0 {
		l.h.report.Failf("the release of %s is unconfirmed, so it may still be held: leasectl recover lists it", strings.Join(namesOf(unconfirmed), ", "))
	}
	l.h.tidyAfter(owed)
	return nil
}

// owedWhenReplaced returns the leases that a handle owes once the request replaces its record
// r. The error is [ErrHeld] if replaces does not allow that.
func (l *Lease) owedWhenReplaced(ctx context.Context, r lockfile.Record, replaces func(lockfile.Record) bool) (owed []lockfile.Owed, err error) {
	if l.h.releasedElsewhere(r) {
		return nil, nil
	}
	if r.State != "" && (replaces == nil || !replaces(r)) {
		return nil, heldError(l.handle.Path(), r)
	}
	if bareHandle(r) {
		if r, err = l.h.identify(ctx, l.h.namedIn(l.handle, r)); err != nil {
			return nil, err
		}
	}
	if err := l.h.leftToKeeper(r); err != nil {
		return nil, err
	}
	owed = owedBy(r)
	return owed, l.h.readdress(ctx, owed)
}

// releaseReplaced gives back the leases that the handle owes beside the request. If the proxy
// does not take them back, the handle keeps them and loses the request. It returns the
// unconfirmed leases: a further release of the handle would not send their releases.
func (l *Lease) releaseReplaced(ctx context.Context, tx *lockfile.Tx) (unconfirmed []lockfile.Owed, err error) {
	if err := tx.Save(); err != nil {
		return nil, err
	}
	failpoint.Here("replaced-in-handle")
	released, err := l.h.releaseCertainOwed(ctx, tx)
	sendable, unconfirmed := splitUnconfirmed(tx.Owed)
	if len(sendable) == 0 {
		tx.Owed, err = nil, nil
	}
	if err != nil {
		tx.Record = releasingRecord(tx.Record, tx.Owed)
		ctx, cancel := writeContext(ctx)
		defer cancel()
		if id := l.h.beginRelease(ctx, l.handle, tx.Record); id != "" { // recover finds the handle by this entry
			defer l.h.journal.leave(id)
			err = adviseForget(id, err)
		}
		return nil, errors.Join(err, tx.Save())
	}
	failpoint.Here("replaced-released")
	l.h.report.Debugf("released %v before acquiring again", released)
	return unconfirmed, nil
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

// recordGrant writes the granted names into the handle, if the handle still waits for this
// lease, and into the shared list.
func (l *Lease) recordGrant(ctx context.Context) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	l.record.State = lockfile.StateHeld
	l.record.AcquiredAt = time.Now().UTC().Round(time.Millisecond)
	l.record.TTL, l.record.Units = l.grant.TTL, l.grant.Units
	for _, lease := range l.grant.Leases {
		l.record.Leases = append(l.record.Leases, lockfile.Lease{Name: lease.Name, Generation: lease.Generation})
	}
	l.record.Store = l.h.dialer.storeOf("", l.record.Proxy)
	if err := l.h.history.add(ctx, l.handle, l.record); err != nil {
		return err
	}
	failpoint.Here("grant-in-history")
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
	if list := lockfile.List(l.record.SharedList); list != "" {
		grants := grantsOf(l.record.Leases, l.record.Store, l.record.RequestID)
		for i := range grants {
			grants[i].Owner, grants[i].At = l.record.Owner, l.record.AcquiredAt
		}
		return list.Append(ctx, grants)
	}
	return nil
}

// rollback undoes the steps that led to the phase of a lease that could not be taken or handed
// over because of err. It returns err, joined with its own failure if it has one. It removes
// the request from the handle, unless another process has replaced that request. The journal
// keeps a request whose outcome is unclear.
func (l *Lease) rollback(ctx context.Context, err error) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var failed error
	unclear := errors.Is(err, proxyclient.ErrUnconfirmed)
	switch l.phase {
	case intended:
		unclear = false // nothing was sent
		if l.mayBeInHandle {
			_, failed = l.h.giveBack(ctx, l.handle, l.Is)
		}
	case enqueued: // the client has withdrawn the request at the proxy
		if !l.private {
			failed = l.forget(ctx)
		}
	case granted:
		_, failed = l.client.Release(ctx, proxyclient.Releasing(l.grant.Leases, l.record.Owner))
		if failed == nil {
			l.h.history.noteGivenBack(ctx, l.record.Leases, l.record.Store, l.record.RequestID)
		}
		failed = errors.Join(failed, l.forget(ctx))
	case recorded: // if the handle was taken over, its new owner releases these names
		_, failed = l.Release(ctx)
	}
	if failed != nil || unclear {
		l.h.journal.leave(l.record.RequestID)
	} else {
		l.h.journal.settle(l.record.RequestID)
	}
	if failed != nil {
		return fmt.Errorf("%w; and giving back failed: %w", err, failed)
	}
	return err
}

// forget removes the request from the handle, if the handle still has it.
func (l *Lease) forget(ctx context.Context) error {
	return l.handle.Update(ctx, func(tx *lockfile.Tx) error {
		if l.Is(tx.Record) {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
}
