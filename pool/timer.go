package pool

import "time"

// timer is a time at which something is due.
type timer struct {
	due time.Duration
	set uint64 // grows with each setting: among timers with the same due, the first set goes first
	pos int
	on  any // *lease, *lock, *request or *pool; see [Set.Advance]
}

func newTimers() ordered[*timer] {
	return ordered[*timer]{
		less: func(a, b *timer) bool {
			if a.due != b.due {
				return a.due < b.due
			}
			return a.set < b.set
		},
		pos: func(t *timer) *int { return &t.pos },
	}
}

// never is the end of time: a time that does not come.
const never time.Duration = 1<<63 - 1

// later returns now + d, or never if that overflows.
func later(now, d time.Duration) time.Duration {
	if sum := now + d; sum >= now {
		return sum
	}
	return never
}
