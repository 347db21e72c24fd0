package proxyserver

import "time"

// clock is the lease clock: base when the server started, and running since. It
// goes by the monotonic part of what read returns, so that whoever sets the wall
// clock moves nothing: only what is for people to read, and where generations
// begin at the next start.
type clock struct {
	base  time.Duration
	start time.Time
	read  func() time.Time
}

// startClock starts it at base; read is [time.Now] if it is nil.
func startClock(base time.Duration, read func() time.Time) clock {
	if read == nil {
		read = time.Now
	}
	return clock{base: base, start: read(), read: read}
}

func (c clock) now() time.Duration { return c.base + c.read().Sub(c.start) }

// until returns how long it is to a time on the lease clock.
func (c clock) until(at time.Duration) time.Duration { return at - c.now() }

// wall returns when a time on the lease clock will be, if the server runs until
// then. It is for people: rounded, and by a clock that may be wrong.
func (c clock) wall(at time.Duration) time.Time {
	return c.read().Add(c.until(at)).Round(time.Millisecond).UTC()
}

// beyond returns a generation after which none was given yet, where given is the
// last that the store knows of: with a store they grow, whatever becomes of the
// wall clock. In memory nothing says which were given before, and after a store
// was restored from a backup it says so wrongly; then the wall clock's
// microseconds are beyond them all, at fewer than a million grants per second.
//
// If it was set back meanwhile they are not beyond, but still others, since a
// server uses up a microsecond with each grant and not with time. One comes again
// only if this server starts within the few microseconds, by a wrong clock, that
// an earlier one had grants in.
func (c clock) beyond(given uint64) uint64 {
	return max(given, uint64(max(0, c.start.UnixMicro())))
}
