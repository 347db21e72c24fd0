package pool

import (
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// reason is why r waits for p, as [WaiterStatus] has it.
func (g *ledger) reason(p *pool, r *request) string {
	if pause, ok := g.pauses[p.Type]; ok {
		return leaseapi.WaitPaused + ": " + pause.Reason
	}
	free := p.free()
	if free <= 0 {
		return leaseapi.WaitFull
	}
	first, ok := p.active.first()
	away := r.away()
	switch {
	case p.due() > g.now && (!ok || p.fits(first.Count)):
		return leaseapi.WaitPaced
	case (away || first == r) && free < r.Count:
		return leaseapi.WaitWants + " " + strconv.Itoa(r.Count)
	case away:
		return ""
	}
	return leaseapi.WaitBehind
}

// before returns how many names those before r want, which is at place.
func (p *pool) before(r *request, place int) (names int) {
	if p.wanted == len(p.queue) {
		return place - 1 // one each, as nearly always; a queue may be long
	}
	for _, other := range p.queue[:place-1] {
		names += other.Count
	}
	return names
}

// estimate is how long a waiter for count names of p may still wait, if those
// before it want before names: until leases have ended, and until the pace has
// counted out the names. Both are zero if nothing is known.
//
// As long as nothing happens in the pool, neither of them grows.
func (g *ledger) estimate(p *pool, before, count int) (likely, most time.Duration) {
	if g.paused(p) {
		return 0, 0
	}
	free := p.free()
	if missing := before + count - free; missing > 0 {
		if !p.ahead.fresh {
			p.ahead.refresh(&p.past, p.all)
		}
		likely, most = p.ahead.freed(g.now, missing, free)
		if most == 0 {
			return 0, 0
		}
	}
	// In floats, since a pace may be as long as a duration can be.
	paced := time.Duration(min(float64(p.dueIn(g.now))+float64(p.Pace)*float64(before), float64(longestEstimate)))
	return min(max(likely, paced), longestEstimate), min(max(most, paced), longestEstimate)
}

// longestEstimate is far beyond what anybody waits, and far from an overflow.
const longestEstimate = 1000 * DefaultTTL
