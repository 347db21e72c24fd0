package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// A proxy answers a caller that may not see a lease as if the lease had never been. So only to the caller
// who took a lease does that answer mean that the lease has ended.

// NotShownError says that the proxy does not show leases to this run's caller, who did not take them.
type NotShownError struct {
	Names         []string
	Caller, Taker leaseapi.Caller
}

func (e *NotShownError) Error() string {
	which := "this lease"
	if len(e.Names) > 1 {
		which = "these leases"
	}
	return fmt.Sprintf("the proxy does not show %s to %s, which is not who took it: use the token of %s", which, e.Caller, e.Taker)
}

// checkShown returns a [NotShownError] if leases of a record are unknown, according to the answer to a
// release, since they are another caller's. It takes them out of the answer. A lease that has ended by itself
// by now counts as ended.
func (h *Holder) checkShown(ctx context.Context, p *v1.Proxy, r lockfile.Record, reply *leaseapi.ReleaseReply) error {
	hidden := func(lost leaseapi.Lost) bool { return lost.Reason == leaseapi.ReasonUnknown && lost.Generation != 0 }
	if !slices.ContainsFunc(reply.Stale, hidden) {
		return nil
	}
	caller, err := p.Caller(ctx)
	if err == nil && (caller == (leaseapi.Caller{}) || caller == r.Taker || h.Journal.Outlived(r.RequestID, r.TTL)) {
		return nil
	}
	var names []string
	for _, lost := range reply.Stale {
		if hidden(lost) {
			names = append(names, lost.Name)
		}
	}
	reply.Stale = slices.DeleteFunc(reply.Stale, hidden)
	if err != nil {
		return fmt.Errorf("%s: unknown to the proxy, and it does not say to whom: %w", strings.Join(names, ", "), err)
	}
	return &NotShownError{Names: names, Caller: caller, Taker: r.Taker}
}

// lostOrHidden returns err, the loss of leases of a record that another caller took as a [NotShownError]: the proxy says of
// those that they are unknown.
func (h *Holder) lostOrHidden(ctx context.Context, p *v1.Proxy, r lockfile.Record, err error) error {
	lost, _ := errors.AsType[*proxyclient.LostError](err)
	if unknown := errors.Is(err, proxyclient.ErrUnknownRequest); lost == nil && !unknown || r.Taker == (leaseapi.Caller{}) {
		return err
	}
	if lost != nil && !slices.ContainsFunc(lost.Lost, func(l leaseapi.Lost) bool { return l.Reason == leaseapi.ReasonUnknown }) {
		return err
	}
	caller, asked := p.Caller(ctx)
	if asked != nil || caller == (leaseapi.Caller{}) || caller == r.Taker {
		return err
	}
	return &NotShownError{Names: r.Names(), Caller: caller, Taker: r.Taker}
}

// Hidden returns why a proxy that answers does not list the leases of a record, if another caller took them; else "".
func (h *Holder) Hidden(ctx context.Context, r lockfile.Record) string {
	if p, err := h.Dialer.DialRecorded(ctx, r); err == nil {
		if hidden, is := errors.AsType[*NotShownError](h.lostOrHidden(ctx, p, r, proxyclient.ErrUnknownRequest)); is {
			return hidden.Error()
		}
	}
	return ""
}

// mayHide tells whether the proxy may have something for the request of a record that it says it does not know, since
// another caller may have made it. If it is known who took its leases, that is a [NotShownError].
func (h *Holder) mayHide(ctx context.Context, p *v1.Proxy, r lockfile.Record) (bool, error) {
	if fresh, err := h.Dialer.Settles(p, r.Store, r.Proxy); fresh || err != nil {
		return false, err
	}
	caller, err := p.Caller(ctx)
	switch {
	case err != nil || caller == (leaseapi.Caller{}) || caller == r.Taker || h.Journal.Outlived(r.RequestID, r.TTL):
		return false, err
	case r.Taker != (leaseapi.Caller{}):
		return false, &NotShownError{Names: []string{r.RequestID}, Caller: caller, Taker: r.Taker}
	}
	return true, nil
}
