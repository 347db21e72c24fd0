package pool

import (
	"slices"
	"time"
)

// historySize is how many holds a history remembers: enough that one unusual job does not count
// as typical, and few enough that a busy pool follows a change within an hour.
const historySize = 64

// history is how long the last leases of a pool were held.
type history struct {
	holds [historySize]time.Duration
	count int // how many were added, over all time
}

func (h *history) add(hold time.Duration) {
	h.holds[h.count%historySize] = hold
	h.count++
}

// known reports whether there was any lease.
func (h *history) known() bool { return h.count > 0 }

// spread returns the median hold, and the longest with an eighth added: leases
// that are all held for the same time still vary by a little.
func (h *history) spread() (typical, longest time.Duration) {
	if !h.known() {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(h.holds[:min(h.count, historySize)]))
	most := sorted[len(sorted)-1]
	return sorted[len(sorted)/2], later(most, most/8)
}
