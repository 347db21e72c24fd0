package proxyclient

import (
	"context"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Heartbeat keeps leases of leasectl's server from ending, by renewing them. It
// treats them as one: they were granted together, and end together. Fill in the
// first four fields and call Run.
//
// The leases are lost, as far as anybody here can know, when the proxy says
// so, or when Deadline is over: from then on it may have granted them to
// somebody else. What uses them has to be stopped by then, and not only from
// then on. Hence the margin.
type Heartbeat struct {
	Client *Client
	Leases []leaseapi.Lease
	TTL    time.Duration // asked for with each renewal; zero leaves each its own
	// Deadline is when the leases end unless they are renewed, as
	// [Grant.Deadline] or an earlier [Renewal] says. Zero: not known; then it
	// is taken to be a provisional grant's from the start of Run.
	Deadline Instant

	// Margin is how long before the deadline Run returns, for what then has to
	// be done in time. Of a time to live that is not even twice as long, it is
	// half: something has to be left to renew in.
	Margin time.Duration
	// OnRenew is called after each renewal, OnRetry before a failed one is
	// tried again. Both may be nil. They are never called at the same time,
	// and Run waits for them.
	OnRenew func(Renewal)
	OnRetry func(error)
}

// retryPause is the longest pause after a renewal that failed for a reason that
// the renewal itself is not patient with: a refused token, say. It may be
// mended before the deadline.
const retryPause = 2 * time.Second

// Run renews at once, which confirms a grant, and then every RenewEvery that
// the proxy says, or sooner when a renewal failed. It blocks until
//
//   - ctx ends: it returns the cause;
//   - the proxy says that leases are lost, or there was no renewal until
//     Margin before the deadline: it returns a [LostError] that tells which.
//     The deadline may still be ahead, or long over if the machine was
//     suspended or the process stopped; [Until] tells;
//   - a pending delayed release was carried out, or became due: it returns nil.
//
// Leases that are not named in a LostError may still be held; they end by
// themselves, or are to be released.
//
// After a suspend or a stop it looks at the deadline before it renews.
//
// A caller that goes on with a lost lease can Run again with a zero Deadline:
// a proxy that was down all the time may still know the lease.
func (h *Heartbeat) Run(ctx context.Context) error {
	if err := renewable(h.Leases); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	b := beat{Heartbeat: *h}
	if b.Deadline.IsZero() {
		b.Deadline = Now().Add(leaseapi.ProvisionalTTL)
	}
	b.next = Now()
	b.setLimit()
	resumed, stop := watchResumes()
	defer stop()
	if err := b.loop(ctx, resumed); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}
