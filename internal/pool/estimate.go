package pool

import (
	"slices"
	"sort"
	"time"
)

// before returns how many units the requests ahead of a place want. Requests that
// are kept out do not count: they hold nobody up.
func (p *pool) before(place int) (units int) {
	if p.wanted == len(p.queue) && len(p.keys) == 0 && p.wantedNames == 0 && p.several == 0 {
		return place - 1 // one each, as nearly always; a queue may be long
	}
	for _, other := range p.queue[:place-1] {
		if !other.keptOut() {
			units += other.units
		}
	}
	return units
}

// estimate returns how long r may still wait for p, at a place of its queue where those ahead want
// before units: until enough leases have ended, the key of r is free, and the pace has let them all
// pass. A request of several pools waits for the last of them. Both results are zero if nothing is
// known. As long as nothing happens in the pools, neither grows.
func (g *ledger) estimate(p *pool, place, before int, r *request) (likely, most time.Duration) {
	if !r.several() {
		likely, most, _ = g.estimateIn(p, p.span(r, place, before), r)
		return likely, most
	}
	if r.whole().shut {
		return 0, 0
	}
	for seat := range r.allSeats {
		q := seat.pool
		place := q.queue.search(seat) + 1
		soonest, latest, ok := g.estimateIn(q, q.span(seat, place, q.before(place)), seat)
		if !ok {
			return 0, 0
		}
		likely, most = max(likely, soonest), max(most, latest)
	}
	return likely, most
}

// estimateIn is estimate for one pool, if before says how many units go before r; false if nothing is
// known.
func (g *ledger) estimateIn(p *pool, before span, r *request) (likely, most time.Duration, ok bool) {
	if !g.open(p, r) || p.lacksForGood(r) {
		return 0, 0, false
	}
	if n, names := p.missing(before.most, r).most(); n > 0 {
		ends, free := p.outlook.ofUnits(), p.ceiling(r.Overcommit)-p.taken()
		if names && !p.counted() {
			ends, free = p.outlook.ofNames(p.reserved), p.leasesLeft()
		}
		likely, most = ends.freed(g.now, n, free)
		if most == 0 {
			return 0, 0, false
		}
		if before.least < before.most {
			n, _ := p.missing(before.least, r).most()
			soonest, _ := ends.freed(g.now, n, free)
			likely = min(likely, soonest)
		}
	}
	if r.key.keptOut(r) {
		soonest, latest, ok := g.keyFreed(p, r)
		if !ok {
			return 0, 0, false
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
	return min(likely, longestEstimate), min(most, longestEstimate), true
}

// keyFreed returns how long it takes until the key of r is free; false if that is unknown, for
// example because another active waiter of the key is ahead of r.
func (g *ledger) keyFreed(p *pool, r *request) (likely, most time.Duration, ok bool) {
	if r.key != nil && r.key.firstAhead(r) != nil {
		return 0, 0, false
	}
	var leases []*lease
	var freed time.Duration // when what is no lease ends
	switch sl := r.slot; {
	case sl == nil:
		leases = r.key.leases
		if l := r.key.lock; l != nil {
			freed = l.Until
		}
	case sl.reserved != nil && sl.reserved.Until == 0:
		return 0, 0, false
	default:
		if sl.lease != nil {
			leases = []*lease{sl.lease}
		}
		if sl.lock != nil {
			freed = sl.lock.Until
		}
		if sl.reserved != nil {
			freed = max(freed, sl.reserved.Until)
		}
	}
	likely, most = freed-g.now, freed-g.now
	for _, l := range leases {
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

// outlook is when the leases of a pool are expected to end, and when its lock delays end. The
// expected end of a lease does not move while the lease is held. So an estimate made from such
// ends falls as time passes, and does not start over.
type outlook struct {
	past history // how long leases were held
	endings
}

// endings are the units that come free, by when they do.
type endings struct {
	running series // by when they were granted: each is held as long as others were
	broken  series // by when they end at the latest
	fixed   series // by when they end
}

// ending is how a lease or a lock delay stands in endings. Zero: it does not.
type ending struct {
	in    *series
	at    time.Duration
	units int
}

// move changes how a lease or a lock delay stands.
func (e *ending) move(to ending) {
	if *e == to {
		return
	}
	if e.in != nil {
		e.in.add(e.at, -e.units)
	}
	if to.in != nil {
		to.in.add(to.at, to.units)
	}
	*e = to
}

// ofLease returns how l stands in e.
func (e *endings) ofLease(l *Lease) ending {
	switch {
	case l.ReleaseAt > 0:
		return ending{&e.fixed, l.ReleaseAt, l.Units}
	case l.Broken != "":
		return ending{&e.broken, l.Expires, l.Units}
	}
	return ending{&e.running, l.Granted, l.Units}
}

// foresee brings the outlook up to date after a change of l, which is held.
func (l *lease) foresee() { l.ending.move(l.pool.outlook.ofLease(&l.Lease)) }

// ends returns when l is expected to end.
func (o *outlook) ends(l *Lease) (soonest, latest time.Duration) {
	switch {
	case l.ReleaseAt > 0:
		return l.ReleaseAt, l.ReleaseAt
	case l.Broken != "":
		return 0, l.Expires
	}
	typical, longest := o.past.spread()
	if !o.past.known() {
		longest = never
	}
	return later(l.Granted, typical), later(l.Granted, longest)
}

// ofUnits returns when units of the limit come free.
func (o *outlook) ofUnits() *forecast { return &forecast{past: &o.past, ends: []*endings{&o.endings}} }

// ofNames returns when names come free, if reserved are the names that are reserved: such a name comes
// free at the end of its reservation, if that has an end.
func (o *outlook) ofNames(reserved []*slot) *forecast {
	f := o.ofUnits()
	if len(reserved) == 0 {
		return f
	}
	var other endings
	for _, sl := range reserved {
		if l := sl.lease; l != nil && l.pool == sl.pool {
			e := other.ofLease(&l.Lease)
			e.in.add(e.at, -e.units)
		}
		if l := sl.lock; l != nil && l.pool == sl.pool {
			other.fixed.add(l.Until, -l.Units)
		}
		if until := sl.reserved.Until; until > 0 {
			other.fixed.add(until, 1)
		}
	}
	f.ends = append(f.ends, &other)
	return f
}

// forecast says when units come free: the sum of all ends.
type forecast struct {
	past *history
	ends []*endings
}

// by returns how many units come free up to a time, if leases are held for hold, and broken ones end
// late, or at once.
func (f *forecast) by(at, hold time.Duration, late bool) (units int) {
	for _, e := range f.ends {
		units += e.running.upTo(at-hold) + e.fixed.upTo(at)
		if late {
			units += e.broken.upTo(at)
		} else {
			units += e.broken.units
		}
	}
	return units
}

// all returns how many units come free at all, and when all have.
func (f *forecast) all(hold time.Duration) (units int, last time.Duration) {
	for _, e := range f.ends {
		units += e.running.units + e.broken.units + e.fixed.units
		last = max(last, e.broken.last(), e.fixed.last())
		if len(e.running.blocks) > 0 {
			last = max(last, later(e.running.last(), hold))
		}
	}
	return units, last
}

// freed returns how long it takes from now until n more units are free, in a pool with free
// units that nobody has taken yet. most is zero if that is unknown. Leases that have lasted
// longer than any before count as never ending.
func (f *forecast) freed(now time.Duration, n, free int) (likely, most time.Duration) {
	if n <= 0 {
		return 0, 0
	}
	typical, longest := f.past.spread()
	most, ok := f.nth(now, n, free, longest, true)
	if !ok {
		return 0, 0
	}
	likely, _ = f.nth(now, n, free, typical, false)
	return min(likely, most), most
}

// nth returns how long it takes from now until the n-th unit becomes free; false if that is
// unknown. It assumes that the free units are taken now, and that each unit is held for hold whenever
// it is taken again. If late is set, leases that are held for longer than hold do not end.
func (f *forecast) nth(now time.Duration, n, free int, hold time.Duration, late bool) (time.Duration, bool) {
	held, over := hold, 0 // held: by those that have leases now
	if late {
		if !f.past.known() {
			held = never
		}
		over = f.by(now, held, true)
	}
	all, last := f.all(held)
	units := all - over + max(free, 0)
	if units <= 0 || n > all-over && hold == 0 {
		return 0, false
	}
	rounds := time.Duration((n - 1) / units)
	if hold > 0 && rounds > never/2/hold {
		return 0, false // longer than anybody waits
	}
	at := hold // for a unit that is free now
	if i := (n-1)%units + 1; i <= all-over {
		at = time.Duration(sort.Search(int(max(0, last-now)), func(d int) bool { return f.by(now+time.Duration(d), held, late)-over >= i }))
	}
	if at >= never/2 {
		return 0, false
	}
	return at + rounds*hold, true
}

// historySize is how many holds a history remembers: enough that one unusual job does not count
// as typical, and few enough that a busy pool follows a change within an hour.
const historySize = 64

// history is how long the last leases of a pool were held.
type history struct {
	holds [historySize]time.Duration
	count int           // how many were added, over all time
	usual time.Duration // of the pool's [Config], which counts until one is added; zero: not said

	typical, longest time.Duration // as of spread; both zero: not known, or to be found out anew
}

func (h *history) add(hold time.Duration) {
	h.holds[h.count%historySize] = hold
	h.count++
	h.typical, h.longest = 0, 0
}

// known reports whether there was any lease, or the configuration says how long one is held.
func (h *history) known() bool { return h.count > 0 || h.usual > 0 }

// spread returns the median hold, and the longest with an eighth added: leases
// that are all held for the same time still vary by a little.
func (h *history) spread() (typical, longest time.Duration) {
	if h.count == 0 {
		return h.usual, later(h.usual, h.usual/8)
	}
	if h.longest == 0 {
		sorted := slices.Sorted(slices.Values(h.holds[:min(h.count, historySize)]))
		most := sorted[len(sorted)-1]
		h.typical, h.longest = sorted[len(sorted)/2], later(most, most/8)
	}
	return h.typical, h.longest
}
