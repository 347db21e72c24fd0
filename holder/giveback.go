package holder

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/leasectl/leasectl/lockfile"
)

// Anything allows whatever a handle has to be replaced or given back. See [Request].
func Anything(lockfile.Record) bool { return true }

// giveBack releases all that a handle holds, waits for or owes, and removes the handle, if same
// allows that for the handle's record. If the handle is gone, or same does not allow it,
// giveBack returns no names and no error: releasing again does nothing. It has the time of a
// release context of ctx.
func (h *Holder) giveBack(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool) (released []string, err error) {
	return h.giveBackAs(ctx, handle, same, func(r lockfile.Record) Named { return h.namedIn(handle, r) })
}

// giveBackAs is giveBack, where meant interprets the names of a bare handle.
func (h *Holder) giveBackAs(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool, meant func(lockfile.Record) Named) (released []string, err error) {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var g givingBack
	err = updateHandle(ctx, handle, func(tx *lockfile.Tx) (err error) {
		if tx.State != "" && same(tx.Record) {
			g, err = h.giveBackLocked(ctx, handle, tx, meant)
		}
		return err
	})
	if err != nil && len(g.unconfirmed) > 0 {
		h.journal.settle(g.intent)
		h.tidyAfter(g.owed)
		h.listUnconfirmed(ctx, handle, g.unconfirmed)
		return g.released, fmt.Errorf("%w: look there, and then run leasectl recover --forget %s", err, unconfirmedID(g.unconfirmed[0]))
	}
	if err != nil {
		h.journal.leave(g.intent)
		return g.released, err
	}
	failpoint.Here("handle-removed")
	h.tidyAfter(g.owed)
	h.journal.settle(g.intent)
	if g.bare {
		for _, o := range g.owed {
			h.removeReleased(ctx, o)
		}
	}
	return g.released, nil
}

// updateHandle is handle.Update. The error is an [unreadError] if the handle cannot be locked
// or read, so that fn is not called, unless the time was over before the lock was free.
func updateHandle(ctx context.Context, handle lockfile.Handle, fn func(tx *lockfile.Tx) error) error {
	called := false
	err := handle.Update(ctx, func(tx *lockfile.Tx) error {
		called = true
		return fn(tx)
	})
	if err != nil && !called && ctx.Err() == nil {
		return unreadError{err}
	}
	return err
}

// givingBack is what one giveBack has done under the lock of its handle.
type givingBack struct {
	bare        bool            // the handle was only a file of names
	intent      string          // id of its journal entry; "" is none
	owed        []lockfile.Owed // before the release
	released    []string
	unconfirmed []lockfile.Owed // owed after the release, if a further one would send none of them; else nil
}

// giveBackLocked is giveBack under the lock of the handle.
func (h *Holder) giveBackLocked(ctx context.Context, handle lockfile.Handle, tx *lockfile.Tx, meant func(lockfile.Record) Named) (g givingBack, err error) {
	if g.bare = bareHandle(tx.Record); g.bare {
		if tx.Record, err = h.identify(ctx, meant(tx.Record)); err != nil {
			return g, advise(err, "handle %s is left as it is: release it again", handle.Path())
		}
	}
	if err := h.leftToKeeper(tx.Record); err != nil {
		return g, err
	}
	g.owed = owedBy(tx.Record)
	g.intent = h.beginRelease(ctx, handle, tx.Record)
	failpoint.Here("release-in-journal")
	if !h.releasedIfKilled(tx) {
		<-h.listening // the handle is written before the release is sent
	}
	if g.released, err = h.releaseHandle(ctx, tx, true, h.toItsProxy); err == nil {
		return g, nil
	}
	sendable, unconfirmed := splitUnconfirmed(tx.Owed)
	if len(sendable) == 0 {
		g.unconfirmed = unconfirmed
		return g, err
	}
	return g, advise(err, "handle %s keeps what is owed: release it again, or run leasectl recover", handle.Path())
}

// stillToGiveBack tells whether to release the lease of a record of this process, although the
// handle is gone or has another request. It is false if this machine knows that the lease was
// given back. Otherwise a lease with a generation is released: releasing it again changes
// nothing. A lease without a generation is not: its name may be somebody else's lease now.
func (h *Holder) stillToGiveBack(r lockfile.Record) bool {
	return safeToReleaseAgain(r) && !h.knownOver(r)
}

// giveBackOwn is giveBack of the handle into which this process wrote r. If the handle is gone
// or cannot be read, it releases the lease of r without the handle: a command may have removed
// or replaced it.
func (h *Holder) giveBackOwn(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool, r lockfile.Record) (released []string, err error) {
	released, err = h.giveBack(ctx, handle, same)
	switch {
	case isUnread(err) && safeToReleaseAgain(r):
		h.report.Debugf("%v: releasing all the same", err)
	case err != nil || len(released) > 0:
		return released, err
	}
	return h.giveBackWithoutHandle(ctx, r)
}

// giveBackWithoutHandle gives back the lease of a record of this process, whose handle was
// removed or replaced, unless it was given back before.
func (h *Holder) giveBackWithoutHandle(ctx context.Context, r lockfile.Record) (released []string, err error) {
	if h.stillToGiveBack(r) {
		ctx, cancel := releaseContext(ctx)
		defer cancel()
		owed := leaseOwed(r)
		released, err = h.send(ctx, "", h.dialer.proxyOf(r.Proxy), &owed)
	}
	if err == nil && safeToReleaseAgain(r) {
		h.tidyAfter([]lockfile.Owed{leaseOwed(r)})
	}
	return released, err
}

// listUnconfirmed writes unconfirmed releases into the journal. Recover lists each by its
// names until the user forgets it.
func (h *Holder) listUnconfirmed(ctx context.Context, handle lockfile.Handle, owed []lockfile.Owed) {
	for _, o := range owed {
		id := unconfirmedID(o)
		in := intentOf(id, lockfile.KindRelease, handle, lockfile.Record{State: lockfile.StateReleasing, Owed: []lockfile.Owed{o}})
		in.Request, in.Owner, in.Count, in.Unconfirmed = o.RequestID, o.Owner, len(o.Leases), o.Names()
		if err := h.journal.begin(ctx, in); err != nil {
			h.report.Failf("%v", err)
		}
		h.journal.leave(id)
	}
}

// unconfirmedID is the id of the journal entry of an unconfirmed release. It is the same
// each time, and not the id of the request's own entry, whose process may live.
func unconfirmedID(o lockfile.Owed) string { return o.RequestID + "-release" }

// beginRelease writes into the journal that a handle's leases are about to be given back, so
// that recover finds the handle wherever it is. It returns the id of the entry; "" if entries
// of this process cover the leases already, or the entry could not be written. It reports such
// a failure, and the release goes on without an entry.
func (h *Holder) beginRelease(ctx context.Context, handle lockfile.Handle, r lockfile.Record) (id string) {
	if h.journal.covers(owedBy(r)...) {
		return ""
	}
	id = rand.Text()
	if err := h.journal.begin(ctx, intentOf(id, lockfile.KindRelease, handle, r)); err != nil {
		h.report.Debugf("%v", err)
		return ""
	}
	return id
}

// intentOf returns the journal entry for an operation on the request of a handle's record.
func intentOf(id string, kind lockfile.Kind, handle lockfile.Handle, r lockfile.Record) lockfile.Intent {
	return lockfile.Intent{
		ID:      id,
		Kind:    kind,
		Request: r.RequestID,
		Handle:  handle.Path(),
		Proxy:   proxyOwed(r),
		Type:    r.Type,
		Count:   r.Count,
		Owner:   r.Owner,
	}
}

// tidyAfter removes the journal entries of leases that were given back, and ends their
// keepers.
func (h *Holder) tidyAfter(owed []lockfile.Owed) {
	for _, o := range owed {
		h.journal.settle(o.RequestID)
		h.keepers.dismiss(o.RequestID)
	}
}

// removeReleased removes the handle into which leases were acquired that were given back by
// their names or a copy, if it holds no other leases: scripts need not release it as well. The
// handle of a running exec stays: without it, exec would take the lease for given back, and not
// for lost. A handle that cannot be removed does no harm.
func (h *Holder) removeReleased(ctx context.Context, o lockfile.Owed) {
	handle, known := h.handleOf(o, h.dialer.storeOf(o.Store, h.dialer.proxyOf(o.Proxy)))
	if !known || h.journal.hasExec(o.RequestID) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyTime)
	defer cancel()
	removed := false
	err := handle.Update(ctx, func(tx *lockfile.Tx) error {
		if removed = tx.RequestID == o.RequestID && h.releasedElsewhere(tx.Record); removed {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
	if err != nil {
		h.report.Debugf("%v", err)
	} else if removed {
		h.tidyAfter([]lockfile.Owed{o})
	}
}
