package holder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// Release gives back all that a handle holds, waits for and owes, also for other
// processes, and returns the names that were released. With a delay it waits first,
// and then does nothing if the handle is of another grant than r, its record as
// read before. A handle that is gone is success. A release that failed leaves the
// handle, which says what it owes.
//
// Once it is due it takes at most [ReleaseTimeout], and 3 s after ctx has ended.
func (h *Holder) Release(ctx context.Context, handle lockfile.Handle, r lockfile.Record, d Delay) (released []string, err error) {
	if d.Time == 0 {
		return h.giveBack(ctx, handle, Anything)
	}
	same := func(now lockfile.Record) bool { return sameGrant(now, r) }
	h.report.Notef("releasing %s in %s", handle.Path(), leaseapi.Duration(d.Time))
	err = d.wait(ctx, h.report, func(ctx context.Context) error { return handle.Watch(ctx, same) })
	if errors.Is(err, ErrSuperseded) {
		h.report.Notef("handle %s was released or acquired again meanwhile: nothing to do", handle.Path())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h.giveBack(ctx, handle, same)
}

// ReleaseNames gives leases back by their names, without a handle, and takes
// them out of list, if that is not "". A name that the proxy has
// granted to somebody else is reported, and no error. Released names are returned beside an error, too.
func (h *Holder) ReleaseNames(ctx context.Context, names []string, list lockfile.List, d Delay) (released []string, err error) {
	if d.Time > 0 {
		never := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		if err := d.wait(ctx, h.report, never); err != nil {
			return nil, err
		}
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	released, err = h.releaseNames(ctx, leaseapi.ReleaseRequest{Names: names})
	if err == nil && list != "" {
		err = list.Remove(ctx, names)
	}
	return released, err
}

// ReleaseNamesDetached leaves the release of names to the proxy, which does it
// after d.Time. It is [errors.ErrUnsupported] with a version-1 proxy.
func (h *Holder) ReleaseNamesDetached(ctx context.Context, names []string, d Delay) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	_, err := h.releaseNames(ctx, leaseapi.ReleaseRequest{Names: names, Delay: leaseapi.Duration(d.Time)})
	return err
}

func (h *Holder) releaseNames(ctx context.Context, request leaseapi.ReleaseRequest) (released []string, err error) {
	client, err := h.dialer.dial(ctx, h.dialer.URL)
	if err != nil {
		return nil, err
	}
	request.Owner = h.owner()
	reply, err := client.Release(ctx, request)
	if err != nil {
		return reply.Released, fmt.Errorf("release %s: %w", strings.Join(request.Names, ", "), err)
	}
	for _, lost := range reply.Stale {
		h.report.Notef("%s is not released: %s", lost.Name, lost.Reason)
	}
	return reply.Released, nil
}

// Renew renews the leases of a record once, each for ttl from now, or as long as
// before if that is zero, and returns for how long. It takes at most
// [ReleaseTimeout]. It is [errors.ErrUnsupported] with a version-1 proxy.
func (h *Holder) Renew(ctx context.Context, r lockfile.Record, ttl time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, ReleaseTimeout)
	defer cancel()
	client, err := h.dialer.dial(ctx, h.dialer.of(r.Proxy))
	if err != nil {
		return 0, err
	}
	renewal, err := client.Renew(ctx, wireLeases(r.Leases), ttl)
	if err != nil {
		return 0, fmt.Errorf("renew %s: %w", strings.Join(r.Names(), ", "), err)
	}
	return renewal.TTL, nil
}
