package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leasectl/leasectl/lockfile"
)

// send sends the release of o, and notes in the history and in the list which leases were given
// back. It notes in o whether the release may have reached the proxy, and drops bare names that
// were given back before. With an error it also returns the names that were released. held is
// the path of the handle whose lock the caller holds; "" is none.
func (h *Holder) send(ctx context.Context, held, proxy string, o *lockfile.Owed) (released []string, err error) {
	store := h.dialer.storeOf(o.Store, proxy)
	if !namesOnly(o.Leases) {
		return h.sendUnchecked(ctx, proxy, o, store)
	}
	// A version-1 proxy releases a name no matter who holds it. So nobody else on this machine
	// may release the name between our look at the history and our note there.
	err = h.underHandleOf(ctx, held, *o, store, func() (err error) {
		all := o.Leases
		o.Leases = slices.DeleteFunc(slices.Clone(all), func(l lockfile.Lease) bool {
			over := h.history.over(l, *o, store)
			if over {
				h.report.Notef("%s is not released: it was given back before", l.Name)
			}
			return over
		})
		if len(o.Leases) == 0 && len(all) > 0 {
			o.Leases = all
			h.unlist(ctx, *o, store, all)
			return nil
		}
		released, err = h.sendUnchecked(ctx, proxy, o, store)
		return err
	})
	return released, err
}

// underHandleOf calls fn under the lock of the handle into which the leases were acquired, if
// this machine knows that handle. held is the path of the handle that the caller has locked. It
// is an error if a keeper is giving the leases back.
func (h *Holder) underHandleOf(ctx context.Context, held string, o lockfile.Owed, store string, fn func() error) error {
	handle, known := h.handleOf(o, store)
	if !known || handle.Path() == held {
		return fn()
	}
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		if err := h.leftToKeeper(tx.Record); err != nil {
			return err
		}
		return fn()
	})
}

// handleOf returns the handle into which the leases of o were acquired, if this machine
// knows it.
func (h *Holder) handleOf(o lockfile.Owed, store string) (handle lockfile.Handle, known bool) {
	for _, l := range o.Leases {
		if g, known := h.history.of(l.Name, store); known && o.RequestID != "" && g.RequestID == o.RequestID {
			handle, err := lockfile.OpenHandle(g.Handle)
			return handle, err == nil
		}
	}
	return lockfile.Handle{}, false
}

// sendUnchecked is send without the check whether the leases were given back before.
func (h *Holder) sendUnchecked(ctx context.Context, proxy string, o *lockfile.Owed, store string) ([]string, error) {
	client, err := h.dialer.dialFor(ctx, proxy, originOf(*o))
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", describeOwed(*o), err)
	}
	if !o.Unsent && namesOnly(o.Leases) {
		client.ReleaseAttempted(o.Names())
	}
	reply, err := client.Release(ctx, h.releaseRequest(*o))
	o.Unsent = o.Unsent && !client.MayHaveReached(o.Names())
	if len(o.Leases) == 0 && errors.Is(err, errors.ErrUnsupported) {
		// A version-1 proxy knows no request ids. The process that waits there notices
		// by itself that its handle was released.
		err = nil
	}
	done := o.Leases
	if err != nil {
		done = slices.DeleteFunc(slices.Clone(done), func(l lockfile.Lease) bool { return !slices.Contains(reply.Released, l.Name) })
		err = fmt.Errorf("release %s: %w", describeOwed(*o), err)
	} else {
		for _, lost := range reply.Stale {
			h.report.Notef("%s is not released: %s", lost.Name, lost.Reason)
		}
	}
	h.history.noteGivenBack(ctx, done, store, o.RequestID)
	h.unlist(ctx, *o, store, done)
	return reply.Released, err
}

// unlist removes leases from their list. They are given back already, so a failure is only
// reported.
func (h *Holder) unlist(ctx context.Context, o lockfile.Owed, store string, leases []lockfile.Lease) {
	if o.SharedList == "" || len(leases) == 0 {
		return
	}
	if err := lockfile.List(o.SharedList).Remove(ctx, grantsOf(leases, store, o.RequestID)); err != nil {
		h.report.Failf("%v", err)
	}
}
