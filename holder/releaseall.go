package holder

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leasectl/leasectl/holder/cleanup"
	v1 "github.com/leasectl/leasectl/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// AllReleased is what [Holder.ReleaseAll] is known to have given back.
type AllReleased struct {
	Names     []string
	Withdrawn int  // requests that waited
	Lost      bool // an earlier try, whose answer was lost, may have given back more
}

// ReleaseAll gives back all leases that owner has at the proxy, whichever machine acquired
// them, and takes the owner's requests off the queue. It also removes their traces on this
// machine: handles, keepers, entries of lists, and journal entries of killed runs. It takes at
// most [cleanup.Timeout], and at most 3 s once ctx has ended. The error is
// [errors.ErrUnsupported] with a version-1 proxy, and with an older server.
func (h *Holder) ReleaseAll(ctx context.Context, owner string) (AllReleased, error) {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	began := time.Now()
	p, err := h.Dialer.Dial(ctx, h.Dialer.URL)
	if err != nil {
		return AllReleased{}, err
	}
	reply, lost, err := p.ReleaseAll(ctx, owner)
	if err != nil {
		return AllReleased{}, err
	}
	t := tidying{
		h: h, proxy: p, owner: owner, store: h.Dialer.StoreOf("", h.Dialer.URL), released: reply.Released, began: began}
	t.tidyIntents(ctx)
	t.tidyHandles(ctx)
	return AllReleased{Names: reply.Released, Withdrawn: reply.Withdrawn, Lost: lost}, nil
}

// tidying removes the traces in the state directory of an owner's leases that were given back without
// their handles. A trace that it cannot remove does no harm: releasing again does nothing.
type tidying struct {
	h        *Holder
	proxy    *v1.Proxy
	owner    string
	store    string
	released []string
	began    time.Time // leases that were acquired later stay

	keepExecs bool            // a running exec keeps its handle: the lease is lost for it, not given back
	over      map[string]bool // requests that the proxy was asked about: whether they have ended
}

func (t *tidying) debug(err error) {
	if err != nil {
		t.h.Reporter.Debugf("%v", err)
	}
}

// tidyIntents settles the journal entries that killed runs of the owner left. Live runs hear of
// the release from the proxy.
func (t *tidying) tidyIntents(ctx context.Context) {
	s := settling{h: t.h, proxyOf: func(recorded string) string {
		if t.h.Dialer.StoreOf("", recorded) != t.h.Dialer.StoreOf("", t.h.Dialer.URL) {
			return ""
		}
		return recorded
	}}
	t.debug(t.h.Journal.Journal().SettleDead(ctx, func(in lockfile.Intent) bool {
		if in.Owner != t.owner || s.proxyOf(in.Proxy) == "" {
			return false
		}
		done, err := s.settleIntent(ctx, in)
		t.debug(err)
		return err == nil && !done.Unconfirmed
	}))
}

// tidyHandles removes the handles of the leases.
func (t *tidying) tidyHandles(ctx context.Context) {
	handles, err := lockfile.Handles(t.h.StateDir)
	t.debug(err)
	for _, handle := range handles {
		if r, err := handle.Read(); err != nil || !t.covers(ctx, r) {
			continue // read without the lock first, since most handles are others'
		}
		var gone lockfile.Record
		err := handle.Update(ctx, func(tx *lockfile.Tx) error {
			if t.covers(ctx, tx.Record) {
				gone, tx.Record = tx.Record, lockfile.Record{}
			}
			return nil
		})
		t.debug(err)
		if err == nil && gone.State != "" {
			t.h.unlist(ctx, gone, gone.Leases)
			t.h.over(gone.RequestID)
		}
	}
}

// covers tells whether all leases that a handle has were given back, or have ended in another way.
// A lease that the owner acquired with another token was not given back.
func (t *tidying) covers(ctx context.Context, r lockfile.Record) bool {
	return (r.State == lockfile.StateHeld || r.State == lockfile.StateReleasing) && len(r.Leases) > 0 && len(r.Earlier) == 0 &&
		!r.AcquiredAt.After(t.began) && r.Owner == t.owner && t.h.Dialer.StoreOf(r.Store, r.Proxy) == t.store && t.isOver(ctx, r) &&
		!(t.keepExecs && t.h.Journal.HasExec(r.RequestID))
}

// isOver tells whether all leases of r have ended. The proxy is asked about names that are not
// among the released ones: they ended before, or the answer with them was lost.
func (t *tidying) isOver(ctx context.Context, r lockfile.Record) bool {
	if !slices.ContainsFunc(r.Leases, func(l lockfile.Lease) bool { return !slices.Contains(t.released, l.Name) }) {
		return true
	}
	over, asked := t.over[r.RequestID]
	if !asked {
		state, err := t.proxy.RequestState(ctx, r.RequestID)
		over = err == nil && state.State == leaseapi.StateEnded || errors.Is(err, proxyclient.ErrUnknownRequest)
		if t.over == nil {
			t.over = make(map[string]bool)
		}
		t.over[r.RequestID] = over
	}
	return over
}
