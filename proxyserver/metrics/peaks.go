package metrics

import (
	"slices"

	"github.com/leasectl/leasectl/leaseapi"
)

// keptPeaks is of how many leases of a pool the peaks are kept: enough for the 95th
// percentile of what runs nowadays.
const keptPeaks = 1000

// peaks are what the last leases of a pool asked for, and what their commands used.
// They are in memory only: they are for people who set costs and capacities.
type peaks struct {
	asked, used []int64 // units, bytes; the oldest at next once there are keptPeaks
	next        int
}

func (p *peaks) add(asked int, used int64) {
	if len(p.asked) < keptPeaks {
		p.asked, p.used = append(p.asked, int64(asked)), append(p.used, used)
		return
	}
	p.asked[p.next], p.used[p.next] = int64(asked), used
	p.next = (p.next + 1) % keptPeaks
}

// summary returns what clients are shown; nil if there is nothing.
func (p *peaks) summary() *leaseapi.Peaks {
	if len(p.asked) == 0 {
		return nil
	}
	return &leaseapi.Peaks{Leases: len(p.asked), Asked: quantiles(p.asked), Used: quantiles(p.used)}
}

// quantiles are by the nearest rank: each is one of the values.
func quantiles(values []int64) leaseapi.Quantiles {
	values = slices.Sorted(slices.Values(values))
	rank := func(percent int) int64 { return values[(percent*len(values)+99)/100-1] }
	return leaseapi.Quantiles{P50: rank(50), P95: rank(95), Max: rank(100)}
}
