package proxyclient

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// beat is the state of one [Heartbeat.Run].
type beat struct {
	Heartbeat
	next    Instant // when to renew
	limit   Instant // when to give up, or to end quietly
	pending bool    // a delayed release is: Deadline is its time
	failed  error   // the last renewal, if it failed

	running chan result // the renewal that is under way, if one is
	cancel  context.CancelCauseFunc
}

// result is what the goroutine of a renewal hands back.
type result struct {
	renewal Renewal
	err     error
}

// setLimit follows a new deadline.
func (b *beat) setLimit() {
	b.limit = b.Deadline
	if !b.pending {
		b.limit = b.Deadline.Add(-min(b.Margin, max(0, Until(b.Deadline)/2)))
	}
}

func (b *beat) loop(ctx context.Context, resumed <-chan struct{}) error {
	defer b.stop()
	for {
		// The limit first: a renewal of leases that are over must not be tried.
		if over(b.limit) {
			if done, err := b.expire(); done {
				return err
			}
			continue
		}
		if b.running == nil && over(b.next) {
			b.start(ctx)
		}
		timer := time.NewTimer(Until(b.wake()))
		select {
		case r := <-b.running:
			b.running = nil
			if done, err := b.take(r); done {
				timer.Stop()
				return err
			}
		case <-resumed: // the timer slept too
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

func over(i Instant) bool { return Until(i) <= 0 }

// wake is when the loop has something to do next, if nothing happens before.
func (b *beat) wake() Instant {
	if b.running == nil && b.next.Sub(b.limit) < 0 {
		return b.next
	}
	return b.limit
}

// start begins a renewal, which goes on until it is answered or stopped.
func (b *beat) start(ctx context.Context) {
	ctx, b.cancel = context.WithCancelCause(ctx)
	limit := b.limit
	r := renewal{
		c: b.Client, leases: b.Leases, ttl: b.TTL,
		p: patience{silence: math.MaxInt64, onRetry: b.OnRetry, longest: longestWithin(Until(limit))},
		// After a stop of the process all timers are due, in any order: the
		// pause before a further attempt may end before the loop wakes.
		late: func() bool { return over(limit) },
	}
	done := make(chan result, 1)
	go func() {
		n, err := r.run(ctx)
		done <- result{n, err}
	}()
	b.running = done
}

// stop ends the renewal that is under way, and waits for it.
func (b *beat) stop() (r result, ok bool) {
	if b.running == nil {
		return result{}, false
	}
	b.cancel(errLate)
	r = <-b.running
	b.running = nil
	return r, true
}

// expire decides at the limit whether that is the end: a renewal that is under
// way may have been answered before.
func (b *beat) expire() (done bool, err error) {
	if r, ok := b.stop(); ok {
		if _, lost := errors.AsType[*LostError](r.err); lost || r.err == nil {
			if done, err := b.take(r); done || !over(b.limit) {
				return done, err
			}
		} else {
			b.failed = r.err
		}
	}
	if b.pending {
		return true, nil
	}
	return true, &LostError{Deadline: b.Deadline, Err: b.failed}
}

// take follows a renewal that has ended. It reports whether that is the end of
// the heartbeat.
func (b *beat) take(r result) (done bool, err error) {
	b.cancel(nil)
	if r.err == nil {
		b.failed = nil
		b.Deadline = r.renewal.Deadline
		b.next = r.renewal.Asked.Add(r.renewal.RenewEvery)
		b.pending = !r.renewal.ReleaseAt.IsZero()
		b.setLimit()
		if b.OnRenew != nil {
			b.OnRenew(r.renewal)
		}
		return false, nil
	}
	if lost, ok := errors.AsType[*LostError](r.err); ok {
		if b.pending && allReleased(lost.Lost) {
			return true, nil
		}
		return true, r.err
	}
	b.failed = r.err
	b.next = Now().Add(max(minPause, min(retryPause, Until(b.limit)/4)))
	if b.OnRetry != nil {
		b.OnRetry(r.err)
	}
	return false, nil
}

func allReleased(lost []leaseapi.Lost) bool {
	for _, l := range lost {
		if l.Reason != leaseapi.ReasonReleased {
			return false
		}
	}
	return true
}
