package holder

import (
	"context"

	"github.com/leasectl/leasectl/lockfile"
)

// Report tells the proxy what the account said to the holder of a record's lease, and returns
// whether the proxy counts it. The lease may have ended. The proxy counts the first report of a
// lease, but throttled replaces an earlier ok. r must have a request id, and o a word. Report
// takes at most [ReleaseTimeout].
//
// Errors are [proxyclient.ErrUnknownRequest] if the proxy has forgotten the lease,
// [proxyclient.ErrNoLease] if the request has none, and [proxyclient.ErrOlder] if the proxy
// takes no reports.
func (h *Holder) Report(ctx context.Context, r lockfile.Record, o Outcome) (counts bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, ReleaseTimeout)
	defer cancel()
	client, err := h.dialer.dial(ctx, h.dialer.proxyOf(r.Proxy))
	if err != nil {
		return false, err
	}
	return client.Report(ctx, *o.reportRequest(r.RequestID))
}
