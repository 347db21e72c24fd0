package pool

import "time"

// average is a moving average in which the last eight values count for about
// two thirds: it follows a change of what jobs do within a few of them.
type average struct {
	value time.Duration
	known bool
}

func (a *average) add(x time.Duration) {
	if !a.known {
		a.value, a.known = x, true
		return
	}
	a.value += (x - a.value) / 8
}
