package holder

import (
	"context"

	"github.com/leasectl/leasectl/lockfile"
)

// Tell notes what the account said so far. The proxy is told with the release of the
// lease, if this process sends that.
func (l *Lease) Tell(o Outcome) {
	l.h.endings.note(l.record.RequestID, func(e *ending) { e.outcome = o })
}

// Report tells the proxy at once what the account said, and returns whether that
// counts. It also tells of a lease that has ended. It takes at most
// [ReleaseTimeout].
func (l *Lease) Report(ctx context.Context, o Outcome) (counts bool, err error) {
	return l.h.Report(ctx, l.record, o)
}

// Report tells the proxy what the account said to the holder of the lease of a record,
// which may have ended, and returns whether that counts: the proxy counts what it is
// told first, but for throttled, which beats ok. It takes at most [ReleaseTimeout].
//
// Errors are [proxyclient.ErrUnknownRequest] if the proxy has forgotten the lease,
// and [proxyclient.ErrOlder] if it takes no reports.
func (h *Holder) Report(ctx context.Context, r lockfile.Record, o Outcome) (counts bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, ReleaseTimeout)
	defer cancel()
	client, err := h.dialer.dial(ctx, h.dialer.proxyOf(r.Proxy))
	if err != nil {
		return false, err
	}
	return client.Report(ctx, *o.report(r.RequestID))
}

// RequestID returns the id of the lease's request, by which the proxy knows the lease
// also when it has ended; empty: the proxy knows none.
func (l *Lease) RequestID() string {
	if !l.grant.Capabilities.RequestIDs() {
		return ""
	}
	return l.record.RequestID
}
