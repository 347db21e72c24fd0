package proxyclient

import "time"

// Instant is a point in time on this machine that counts on while the machine
// is suspended (CLOCK_BOOTTIME, on Linux): a proxy elsewhere does not sleep
// with it. On other systems it is Go's monotonic clock, which may stand still
// in a suspend. It means nothing on another machine, nor after a reboot.
type Instant struct {
	// The monotonic clock of the runtime, which testing/synctest can drive,
	// and how far the boot-time clock was ahead of it: the time suspended.
	t     time.Time
	slept time.Duration
}

// shortestSuspend is the least difference that counts as time suspended. The
// two clocks cannot be read at the same moment, so their distance jitters by
// microseconds; no suspend and resume takes less than this.
const shortestSuspend = 10 * time.Millisecond

// What only the machine can do is replaced in tests, which cannot suspend it.
var (
	timeSuspended = suspended
	watchResumes  = resumes
)

// Now returns the current instant.
func Now() Instant {
	return Instant{t: time.Now(), slept: timeSuspended()}
}

// Sub returns i-j.
func (i Instant) Sub(j Instant) time.Duration {
	d := i.t.Sub(j.t)
	if s := i.slept - j.slept; s.Abs() >= shortestSuspend {
		d += s
	}
	return d
}

// Add returns i+d.
func (i Instant) Add(d time.Duration) Instant {
	i.t = i.t.Add(d)
	return i
}

// IsZero reports whether i is the zero Instant, which is no point in time.
func (i Instant) IsZero() bool { return i.t.IsZero() }

// Until returns the time from now to i, negative if i is over.
func Until(i Instant) time.Duration { return i.Sub(Now()) }
