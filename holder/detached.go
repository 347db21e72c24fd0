package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// ReleaseDetached leaves a release after delay to the proxy, which needs no client for
// it, or to a keeper if the proxy is of version 1. r is the handle's record as read. It
// takes at most [ReleaseTimeout].
func (h *Holder) ReleaseDetached(ctx context.Context, handle lockfile.Handle, r lockfile.Record, delay time.Duration) error {
	if r.State != lockfile.StateHeld {
		return fmt.Errorf("handle %s holds no lease yet: a delayed release needs one", handle.Path())
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	client, err := h.dialer.dial(ctx, h.dialer.proxyOf(r.Proxy))
	if err != nil {
		return err
	}
	leases := r.Leases
	if bareHandle(r) {
		meant := h.namedIn(handle, r)
		owed, over, err := h.owedOf(ctx, meant)
		if err != nil {
			return err
		}
		if len(owed) != 1 || len(over) > 0 {
			return h.ReleaseNamedDetached(ctx, meant, delay)
		}
		leases = owed[0].Leases
	}
	who := "the proxy"
	gone, err := delayByProxy(ctx, client, handle, wireLeases(leases), h.ownerOf(r.Owner), delay)
	if errors.Is(err, errors.ErrUnsupported) {
		who = "a process in the background"
		err = h.delayByKeeper(ctx, handle, r, 0, delay)
	}
	if err != nil {
		return err
	}
	h.sayPutOff(who, r.Names(), gone, delay)
	return nil
}

// sayPutOff says who releases which of names later: not those that are over.
func (h *Holder) sayPutOff(who string, names []string, over []leaseapi.Lost, delay time.Duration) {
	names = slices.Clone(names)
	for _, l := range over {
		h.report.Notef("the lease of %s is over already (%s): nothing to release", l.Name, leaseapi.Printable(l.Reason))
		names = slices.DeleteFunc(names, func(name string) bool { return name == l.Name })
	}
	if len(names) > 0 {
		h.report.Notef("%s releases %s in %s", who, strings.Join(names, ", "), leaseapi.Duration(delay))
	}
}

// ReleaseNamedDetached leaves the release of names to the proxy, which does it
// after delay. It is [errors.ErrUnsupported] with a version-1 proxy.
func (h *Holder) ReleaseNamedDetached(ctx context.Context, n Named, delay time.Duration) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	client, err := h.dialer.dial(ctx, h.dialer.URL)
	if err != nil {
		return err
	}
	owed, over, err := h.owedOf(ctx, n)
	if err != nil {
		return err
	}
	h.sayEnded(over)
	for _, o := range owed {
		request := h.releaseRequest(o)
		request.Delay = leaseapi.Duration(delay)
		reply, err := client.Release(ctx, request)
		if err != nil {
			return fmt.Errorf("release %s: %w", describeOwed(o), err)
		}
		h.sayPutOff("the proxy", o.Names(), slices.Concat(reply.Over, reply.Stale), delay)
	}
	return nil
}
