package holder

import (
	"context"

	"github.com/leasectl/leasectl/lockfile"
)

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
	return client.Report(ctx, *o.reportRequest(r.RequestID))
}
