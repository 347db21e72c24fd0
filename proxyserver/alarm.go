package proxyserver

import "time"

// alarm is a timer on the lease clock.
type alarm struct {
	timer *time.Timer
	at    time.Duration // when it rings; never: it is not set
}

// newAlarm returns an alarm that rings at once.
func newAlarm() alarm { return alarm{timer: time.NewTimer(0)} }

// setBefore makes it ring at next, unless it rings earlier anyway. An alarm that
// rings too early costs one look at the pools; to set it anew costs as much.
func (a *alarm) setBefore(next, now time.Duration) {
	if next < a.at {
		a.at = next
		a.timer.Reset(next - now)
	}
}
