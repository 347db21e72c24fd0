package proxyclient

import (
	"context"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/suspend"
)

// Instant is a point in time on this machine, by a clock that goes on while the machine
// is suspended (CLOCK_BOOTTIME, on Linux), since a proxy elsewhere goes on, too. On other
// systems it is Go's monotonic clock, which may stand still in a suspend. An Instant is
// meaningless on another machine and after a reboot.
type Instant struct {
	// t is by the monotonic clock of the runtime, which testing/synctest can drive.
	// slept is how far the boot-time clock was ahead of it: the suspended time.
	t     time.Time
	slept time.Duration
}

// Tests replace these variables, since they cannot suspend the machine.
var (
	timeSuspended = suspend.Total
	watchResumes  = suspend.Resumes
)

// Now returns the current instant.
func Now() Instant {
	return Instant{t: time.Now(), slept: timeSuspended()}
}

// Sub returns i-j.
func (i Instant) Sub(j Instant) time.Duration {
	d := i.t.Sub(j.t)
	if s := i.slept - j.slept; s.Abs() >= suspend.Shortest {
		d += s
	}
	return d
}

// Add returns i+d.
func (i Instant) Add(d time.Duration) Instant {
	i.t = i.t.Add(d)
	return i
}

// SinceBoot returns i as the time since this machine booted. Unlike an Instant it
// means the same in every process of the machine, until the next boot.
func (i Instant) SinceBoot() time.Duration { return suspend.SinceBoot() + Until(i) }

// AfterBoot is the inverse of [Instant.SinceBoot].
func AfterBoot(d time.Duration) Instant { return Now().Add(d - suspend.SinceBoot()) }

// IsZero reports whether i is the zero Instant, which is no point in time.
func (i Instant) IsZero() bool { return i.t.IsZero() }

// Until returns the time from now to i, negative if i is in the past.
func Until(i Instant) time.Duration { return i.Sub(Now()) }

// over reports whether i is now or in the past.
func over(i Instant) bool { return Until(i) <= 0 }

// Sleep waits for d, by the clock of Go's timers, and returns nil. If ctx ends first, it
// returns the cause of ctx at once.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// After calls fn on a goroutine of its own when d is over, by the clock of Go's
// timers, unless stop is called or ctx ends before. The context of fn ends with ctx and
// when stop is called. stop waits until fn has returned; calling it again does nothing.
//
// Until d is over there is no goroutine: a goroutine costs a short command some ten
// microseconds, and most calls of fn never happen.
func After(ctx context.Context, d time.Duration, fn func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Add(1)
	timer := time.AfterFunc(d, func() {
		defer running.Done()
		if ctx.Err() == nil {
			fn(ctx)
		}
	})
	return func() {
		cancel()
		if timer.Stop() {
			running.Done()
		}
		running.Wait()
	}
}
