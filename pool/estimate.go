package pool

import (
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// reason returns why r waits for p, as [WaiterStatus] has it, if the requests ahead of r want
// before units.
func (g *ledger) reason(p *pool, before int, r *request) string {
	if pause, ok := g.pauses[p.Type]; ok && !r.Overcommit {
		return leaseapi.WaitPaused + ": " + pause.Reason
	}
	if k := p.keys[r.Key]; k.busy() {
		if k.lease == nil {
			return leaseapi.WaitLocked + " " + k.lock.Name
		}
		return leaseapi.WaitKey
	}
	full, lock := p.free(r.Overcommit) <= 0, p.lockDelayOf(p.missing(before, r))
	switch {
	case full && lock != nil:
		return leaseapi.WaitLocked + " " + lock.Name
	case full:
		return leaseapi.WaitFull
	}
	first, ok := p.next.first()
	away, fits, next := r.away(), p.fits(r), p.isNext(r)
	if !away && (!ok || ahead(r, first)) {
		first, ok = r, true // r is a prospect: it is not in p.next yet
	}
	switch {
	case g.due(p, r) > g.now && (!ok || p.fits(first) || next && fits):
		return leaseapi.WaitPaced
	case (away || next) && !fits && lock != nil:
		return leaseapi.WaitLocked + " " + lock.Name
	case (away || next) && !fits:
		return leaseapi.WaitWants + " " + strconv.Itoa(r.units)
	case away:
		return ""
	}
	return leaseapi.WaitBehind
}

// before returns how many units the requests ahead of a place want. Requests whose key is busy
// do not count: they hold nobody up.
func (p *pool) before(place int) (units int) {
	if p.wanted == len(p.queue) && len(p.keys) == 0 {
		return place - 1 // one each, as nearly always; a queue may be long
	}
	for _, other := range p.queue[:place-1] {
		if !other.key.busy() {
			units += other.units
		}
	}
	return units
}

// estimate returns how long r may still wait for p, if before says how many units go before it:
// until enough leases have ended, the key of r is free, and the pace has let them all pass. Both
// results are zero if nothing is known. As long as nothing happens in the pool, neither grows.
func (g *ledger) estimate(p *pool, before span, r *request) (likely, most time.Duration) {
	if !g.open(p, r) {
		return 0, 0
	}
	if missing := p.missing(before.most, r); missing > 0 {
		g.refresh(p)
		free := p.free(r.Overcommit)
		likely, most = p.outlook.freed(g.now, missing, free)
		if most == 0 {
			return 0, 0
		}
		if before.least < before.most {
			soonest, _ := p.outlook.freed(g.now, p.missing(before.least, r), free)
			likely = min(likely, soonest)
		}
	}
	if r.key.busy() {
		soonest, latest, ok := g.keyFreed(p, r)
		if !ok {
			return 0, 0
		}
		likely, most = max(likely, soonest), max(most, latest)
	}
	if !r.Overcommit {
		// In floats, since a pace may be as long as a duration can be.
		paced := func(units int) time.Duration {
			return time.Duration(min(float64(p.dueIn(g.now))+float64(p.pace())*float64(units), float64(longestEstimate)))
		}
		likely, most = max(likely, paced(before.least)), max(most, paced(before.most))
	}
	return min(likely, longestEstimate), min(most, longestEstimate)
}

// refresh brings the outlook of p up to date.
func (g *ledger) refresh(p *pool) {
	if !p.outlook.fresh {
		p.outlook.refresh(&p.past, p.all, p.allLocked)
	}
}

// keyFreed returns how long it takes until the key of r is free; false if that is unknown, for
// example because another active waiter of the key is ahead of r.
func (g *ledger) keyFreed(p *pool, r *request) (likely, most time.Duration, ok bool) {
	if first, ok := r.key.active.first(); ok && ahead(first, r) {
		return 0, 0, false
	}
	if l := r.key.lock; l != nil {
		likely, most = l.Until-g.now, l.Until-g.now
	}
	if l := r.key.lease; l != nil {
		g.refresh(p)
		soonest, latest := p.outlook.ends(&l.Lease)
		if latest == never || latest <= g.now {
			return 0, 0, false
		}
		likely, most = max(likely, soonest-g.now), max(most, latest-g.now)
	}
	return max(0, likely), max(0, most), true
}

// longestEstimate is far beyond what anybody waits, and far from an overflow.
const longestEstimate = 1000 * DefaultTTL
