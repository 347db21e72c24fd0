package proxyclient

import (
	"context"
	"fmt"
	"net/http"

	"github.com/leasectl/leasectl/leaseapi"
)

// Report tells the proxy the outcome of a lease, and returns whether the report counts:
// see [leaseapi.ReportReply]. It retries until ctx ends, or until there was no good
// answer for too long ([ErrUnreachable]), since a second copy changes nothing.
//
// Errors are [ErrUnknownRequest] if the proxy has forgotten the lease, [ErrNoLease],
// and [ErrOlder] if the proxy takes no reports.
func (c *Client) Report(ctx context.Context, r leaseapi.ReportRequest) (counts bool, err error) {
	p := &patience{limits: usualLimits, maxPause: maxPauseBefore(ctx)}
	if err := c.ensureWire(ctx, wireUnits, "a report", p); err != nil {
		return false, fmt.Errorf("report: %w", err)
	}
	o := c.do(ctx, post(leaseapi.PathReport, r, idempotent{misrouted: true}), p)
	var reply leaseapi.ReportReply
	switch {
	case o.err != nil:
		err = c.failure(ctx, o, p)
	case o.StatusCode == http.StatusOK && o.decode(&reply) == nil:
		return reply.Counts, nil
	case o.is(leaseapi.ProblemUnknownRequest):
		err = fmt.Errorf("%w %s: the lease ended more than two hours ago, or is of another proxy: name that with --proxy", ErrUnknownRequest, r.RequestID)
	case o.is(leaseapi.ProblemNoLease):
		err = &reworded{text: o.text(), err: ErrNoLease}
	default:
		err = c.failure(ctx, o, p)
	}
	return false, fmt.Errorf("report: %w", err)
}
