package proxyserver

import "time"

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
