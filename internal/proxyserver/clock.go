package proxyserver

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/suspend"
)

// never is a time on the lease clock that does not come.
const never time.Duration = math.MaxInt64

// lastCall, as a now, counts as the time of the last call of the pools: their time does not
// go back. Nothing is due at that time, so pools that are only read grant nothing.
const lastCall = 0

// later returns now + wait, or the end of time if that is later.
func later(now, wait time.Duration) time.Duration { return now + min(wait, never-now) }

// clock is the lease clock. It showed base at start, and has run since then, also while the
// machine is suspended: holders on other machines are not suspended with it. It uses the
// monotonic part of the times that read returns. So setting the wall clock changes only
// the times that people read, and where generations begin at the next start.
type clock struct {
	base      time.Duration
	start     time.Time
	read      func() time.Time
	suspended *suspended
}

// suspended is how long the machine was suspended since a clock was started.
type suspended struct {
	total func() time.Duration // since the machine booted
	first time.Duration        // total when the clock was started
	slept atomic.Int64         // how much of it the clock has counted
	asked atomic.Int64         // when total was called last: the time since the start, without suspends
}

// startClock starts a clock at base. A nil read is [time.Now], and a nil total
// [suspend.Total].
func startClock(base time.Duration, read func() time.Time, total func() time.Duration) clock {
	if read == nil {
		read = time.Now
	}
	if total == nil {
		total = suspend.Total
	}
	return clock{base: base, start: read(), read: read, suspended: &suspended{total: total, first: total()}}
}

func (c clock) now() time.Duration {
	return c.base + c.read().Sub(c.start) + time.Duration(c.suspended.slept.Load())
}

// wake puts the clock forward by a suspend since the last call. Only wake does, so that its
// caller sees the jump, and can treat it as a stall. A suspend is noticed up to
// [suspend.Shortest] late, as if it came that much later: asking the system takes longer
// than most calls of the pools.
func (c clock) wake() {
	s := c.suspended
	awake := c.read().Sub(c.start)
	if last := s.asked.Load(); last > 0 && awake-time.Duration(last) < suspend.Shortest {
		return
	}
	s.asked.Store(int64(awake))
	if slept := s.total() - s.first; slept-time.Duration(s.slept.Load()) >= suspend.Shortest {
		s.slept.Store(int64(slept))
	}
}

// until returns how long it is from now to a time on the lease clock.
func (c clock) until(at time.Duration) time.Duration { return at - c.now() }

// since returns how long ago a time on the lease clock was.
func (c clock) since(at time.Duration) time.Duration { return c.now() - at }

// wall returns when a time on the lease clock will be, if the server runs until
// then. It is for people: rounded, and by a clock that may be wrong.
func (c clock) wall(at time.Duration) time.Time {
	return c.read().Add(c.until(at)).Round(time.Millisecond).UTC()
}

// stamp returns what the wall clock shows, as stores keep it.
func (c clock) stamp() time.Time { return c.read().Round(time.Millisecond).UTC() }

// beyond returns a generation that no earlier generation exceeds. given is the last one in
// the store: with a store, generations grow whatever the wall clock says. A server in memory
// does not know the earlier generations, and a store restored from a backup lacks some of
// them. For both, the wall clock's microseconds are beyond all earlier generations, at fewer
// than a million grants a second.
//
// If the wall clock was set back, new generations are smaller than earlier ones, but do not
// repeat them: a server uses up one microsecond with each grant, and none as time passes. A
// generation repeats only if this server starts, by the wrong clock, within the few
// microseconds that an earlier server used up.
func (c clock) beyond(given uint64) uint64 {
	return max(given, uint64(max(0, c.start.UnixMicro())))
}

// alarm is a timer on the lease clock. The mutex of the committer guards all of it except
// the timer's channel.
type alarm struct {
	timer *time.Timer
	at    time.Duration // when it rings; never: it is not set
}

// lateBy is how late an alarm may be found. More is a stall: the process was
// stopped, or starved, or its machine was paused or suspended.
const lateBy = time.Second

// newAlarm returns an alarm that is not set.
func newAlarm() alarm {
	a := alarm{timer: time.NewTimer(time.Hour), at: never}
	a.timer.Stop()
	return a
}

// ringNow makes the alarm ring at once.
func (a *alarm) ringNow() {
	a.at = never
	a.timer.Reset(0)
}

// setBefore makes the alarm ring at next, unless it rings earlier anyway. An alarm that rings
// too early costs one look at the pools, and setting it anew would cost as much.
func (a *alarm) setBefore(next, now time.Duration) {
	if next < a.at {
		a.at = next
		a.timer.Reset(next - now)
	}
}
