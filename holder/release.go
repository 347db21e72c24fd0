package holder

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Release gives back all that a handle holds, waits for and owes, whichever process put it
// there, and returns the names that were released. With a delay it waits first, and does
// nothing if the handle then has another grant than r, the handle's record as read before. A
// handle that is gone is a success. After a failure the handle stays and says what it owes.
//
// A release that is due takes at most [ReleaseTimeout], and at most 3 s once ctx has ended.
func (h *Holder) Release(ctx context.Context, handle lockfile.Handle, r lockfile.Record, d Delay) (released []string, err error) {
	defer func() {
		for _, name := range released {
			h.report.Debugf("released %s", name)
		}
	}()
	if d.Time == 0 {
		return h.giveBack(ctx, handle, Anything)
	}
	meant := h.namedIn(handle, r) // the meaning of the names now, and not when the release is due
	same := func(now lockfile.Record) bool { return sameGrant(now, r) }
	what := "the request of handle " + handle.Path() // which has no name yet
	if names := r.NamesInFile(); len(names) > 0 {
		what = strings.Join(names, ", ")
	}
	h.report.Notef("releasing %s in %s", what, leaseapi.Duration(d.Time))
	err = d.wait(ctx, h.report, func(ctx context.Context) error { return handle.Watch(ctx, same) })
	if errors.Is(err, ErrReplaced) {
		h.report.Notef("handle %s was released or acquired again meanwhile: nothing to do", handle.Path())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h.giveBackAs(ctx, handle, same, func(lockfile.Record) Named { return meant })
}

// ReleaseNamed gives leases back by their names, without a handle; with a delay it waits first.
// It reports to the user, but not as an error, a lease that is over, or a name that is somebody
// else's lease now. A list loses the entries of released leases. With an error it also returns
// the names that were released.
func (h *Holder) ReleaseNamed(ctx context.Context, n Named, d Delay) (released []string, err error) {
	if d.Time > 0 {
		h.report.Notef("releasing %s in %s", strings.Join(n.Names(), ", "), leaseapi.Duration(d.Time))
		if err := d.wait(ctx, h.report, nil); err != nil {
			return nil, err
		}
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	owed, over, err := h.owedOf(ctx, n)
	if err != nil {
		return nil, err
	}
	h.sayEnded(over)
	errs := []error{h.unlistEnded(ctx, n, over)}
	for _, o := range owed {
		sent := o // a copy, since send changes it
		names, err := h.send(ctx, "", h.dialer.URL, &sent)
		released, errs = append(released, names...), append(errs, err)
		h.removeReleased(ctx, o)
		if errors.Is(err, proxyclient.ErrUnreachable) {
			break
		}
	}
	return released, errors.Join(errs...)
}

// unlistEnded removes from the list of n the names whose leases are over.
func (h *Holder) unlistEnded(ctx context.Context, n Named, over []ended) error {
	if n.list == "" {
		return nil
	}
	var gone []lockfile.Grant
	for _, g := range n.grants {
		if slices.ContainsFunc(over, func(e ended) bool { return e.name == g.Name }) {
			gone = append(gone, g)
		}
	}
	return n.list.Remove(ctx, gone)
}
