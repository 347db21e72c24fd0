package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Heartbeat keeps leases of leasectl's server from ending, by renewing them. It
// treats them as one: they were granted together, and end together. Fill in the
// first three fields and call Run.
//
// The leases are lost when the proxy says so, or when Deadline is over: from
// then on the proxy may have granted them to somebody else. A user of the leases must
// have stopped at the deadline, not only begin to stop. Hence Margin.
type Heartbeat struct {
	Client *Client
	Leases []leaseapi.Lease
	// Deadline is when the leases end unless they are renewed, from
	// [Grant.Deadline] or an earlier [Renewal]. Zero: not known; Run then assumes
	// [leaseapi.ProvisionalTTL] from its start.
	Deadline Instant

	// Margin is how long before the deadline Run returns, to leave time to stop the
	// users of the leases. If the leases live less than twice Margin, half of their
	// time to live is used instead, so that there is time to renew.
	Margin time.Duration
	// OnRenew is called after each renewal, OnRetry before a failed renewal is
	// repeated. Both may be nil. They are never called at the same time, and
	// Run waits for them.
	OnRenew func(Renewal)
	OnRetry func(error)
}

// Run renews at once, which confirms a grant, and then at the interval RenewEvery of
// each [Renewal], or sooner after a failed renewal. It blocks until
//
//   - ctx ends: it returns the cause;
//   - the proxy says that leases are lost, or no renewal succeeded until
//     Margin before the deadline: it returns a [LostError] that tells which.
//     The deadline may still be ahead, or long over if the machine was
//     suspended or the process stopped: see [Until];
//   - a pending delayed release was carried out, or became due: it returns nil.
//
// Leases that a LostError does not name may still be held: the caller releases
// them, or they end with their TTL.
//
// After a suspend or a stop of the process Run checks the deadline before it renews.
//
// A caller that goes on with a lost lease can Run again with a zero Deadline:
// a proxy that was down all the time may still know the lease.
func (h *Heartbeat) Run(ctx context.Context) error {
	if err := renewable(h.Leases); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	resumed, stop := watchResumes()
	defer stop()
	l := heartbeatLoop{Heartbeat: h, schedule: newSchedule(h.Deadline, h.Margin)}
	defer l.stopRenewal()
	err := l.run(ctx, resumed)
	if err != nil && !errors.Is(err, errReleasedLate) {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// errReleasedLate ends a heartbeat whose leases were released by a delayed
// release.
var errReleasedLate = errors.New("released by a delayed release")

// heartbeatLoop is one [Heartbeat.Run].
type heartbeatLoop struct {
	*Heartbeat
	schedule
	lastErr error // of the last renewal

	running chan renewalResult // the renewal under way; nil: none
	cancel  context.CancelCauseFunc
}

// renewalResult is what the goroutine of a renewal hands back.
type renewalResult struct {
	renewal Renewal
	err     error
}

func (l *heartbeatLoop) run(ctx context.Context, resumed <-chan struct{}) error {
	for {
		// Check the limit first: leases past their deadline must not be renewed.
		if over(l.limit) {
			if err := l.atLimit(); err != nil {
				return err
			}
			continue
		}
		if l.running == nil && over(l.next) {
			l.startRenewal(ctx)
		}
		select {
		case r := <-l.running:
			l.running = nil
			if err := l.follow(r); err != nil {
				return err
			}
			if r.err != nil && l.OnRetry != nil {
				l.OnRetry(r.err)
			}
		case <-resumed: // the timer below stood still in the suspend
		case <-time.After(Until(l.wake(l.running != nil))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// startRenewal starts a renewal, which goes on until it is answered or stopped.
func (l *heartbeatLoop) startRenewal(ctx context.Context) {
	ctx, l.cancel = context.WithCancelCause(ctx)
	limit := l.limit
	r := renewal{
		client: l.Client, leases: l.Leases,
		patience: patience{limits: noLimits, onRetry: l.OnRetry, maxPause: maxPauseWithin(Until(limit))},
		// After a stop of the process all timers fire, in any order. The pause
		// before a further attempt may end before the loop wakes, so each attempt
		// checks the limit itself.
		late: func() bool { return over(limit) },
	}
	done := make(chan renewalResult, 1)
	go func() {
		n, err := r.run(ctx)
		done <- renewalResult{n, err}
	}()
	l.running = done
}

// stopRenewal stops the renewal under way, if there is one, and waits for its end.
func (l *heartbeatLoop) stopRenewal() (r renewalResult, stopped bool) {
	if l.running == nil {
		return renewalResult{}, false
	}
	l.cancel(errLate)
	r = <-l.running
	l.running = nil
	return r, true
}

// atLimit decides whether the heartbeat ends at the limit: a renewal under way may have
// been answered in time. Nil means that it goes on.
func (l *heartbeatLoop) atLimit() error {
	if r, stopped := l.stopRenewal(); stopped {
		if err := l.follow(r); err != nil || !over(l.limit) {
			return err
		}
	}
	if l.releasing {
		return errReleasedLate
	}
	return &LostError{Deadline: l.deadline, Err: l.lastErr}
}

// follow handles the result of a renewal. Its error ends the heartbeat: the leases are
// lost, or a delayed release has released them.
func (l *heartbeatLoop) follow(r renewalResult) error {
	l.cancel(nil)
	l.lastErr = r.err
	if r.err == nil {
		l.renewed(r.renewal)
		if l.OnRenew != nil {
			l.OnRenew(r.renewal)
		}
		return nil
	}
	lost, isLost := errors.AsType[*LostError](r.err)
	switch {
	case isLost && l.releasing && allReleased(lost.Lost):
		return errReleasedLate
	case isLost:
		return r.err
	}
	l.failed()
	return nil
}

func allReleased(lost []leaseapi.Lost) bool {
	for _, l := range lost {
		if l.Reason != leaseapi.ReasonReleased {
			return false
		}
	}
	return true
}
