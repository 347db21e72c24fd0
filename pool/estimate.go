package pool

import (
	"cmp"
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
		p.outlook.refresh(p, names)
		free := p.leasesLeft()
		if !names || p.counted() {
			free = p.ceiling(r.Overcommit) - p.taken()
		}
		likely, most = p.outlook.freed(g.now, n, free)
		if most == 0 {
			return 0, 0, false
		}
		if before.least < before.most {
			n, _ := p.missing(before.least, r).most()
			soonest, _ := p.outlook.freed(g.now, n, free)
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
	p.outlook.refresh(p, p.outlook.names)
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
	fresh   bool
	names   bool          // of what frees a name, not a unit of the limit: see missing
	typical time.Duration // how long a lease is usually held
	longest time.Duration // how long at most, lately
	known   bool          // both are known

	soonest endings // a typical hold after each grant
	latest  endings // the longest hold after each grant
}

// ending is a time at which units become free.
type ending struct {
	at    time.Duration
	units int
	sum   int // units of the endings up to this one
}

// endings are in the order of time, after sortAndSum.
type endings []ending

// sortAndSum sorts the endings by time, and sums up their units.
func (e endings) sortAndSum() {
	slices.SortFunc(e, func(a, b ending) int { return cmp.Compare(a.at, b.at) })
	sum := 0
	for i := range e {
		sum += e[i].units
		e[i].sum = sum
	}
}

// invalidate makes the next estimate look at all leases anew.
func (o *outlook) invalidate() { o.fresh = false }

// refresh brings the outlook of p up to date: from its leases, its lock delays and its reservations that
// end by themselves, as far as their ends free names, or units of the limit; and from how long earlier
// leases were held.
func (o *outlook) refresh(p *pool, names bool) {
	if o.fresh && o.names == names {
		return
	}
	o.fresh, o.names, o.known = true, names, p.past.known()
	o.typical, o.longest = p.past.spread()
	o.soonest, o.latest = o.soonest[:0], o.latest[:0]
	frees := func(sl *slot) bool { return !names || sl.reserved == nil }
	for _, l := range p.held.items {
		if frees(l.slot) {
			soonest, latest := o.ends(&l.Lease)
			o.soonest = append(o.soonest, ending{at: soonest, units: l.Units})
			o.latest = append(o.latest, ending{at: latest, units: l.Units})
		}
	}
	over := func(at time.Duration, units int) {
		end := ending{at: at, units: units}
		o.soonest, o.latest = append(o.soonest, end), append(o.latest, end)
	}
	for _, l := range p.locks {
		if frees(l.slot) {
			over(l.Until, l.Units)
		}
	}
	for _, sl := range p.reserved {
		if until := sl.reserved.Until; names && until > 0 {
			over(until, 1)
		}
	}
	o.soonest.sortAndSum()
	o.latest.sortAndSum()
}

// ends returns when l is expected to end.
func (o *outlook) ends(l *Lease) (soonest, latest time.Duration) {
	switch {
	case l.ReleaseAt > 0:
		return l.ReleaseAt, l.ReleaseAt
	case o.known:
		soonest, latest = later(l.Granted, o.typical), later(l.Granted, o.longest)
	default:
		soonest, latest = l.Granted, never
	}
	if l.Broken != "" {
		soonest, latest = min(soonest, l.Expires), min(latest, l.Expires)
	}
	return soonest, latest
}

// freed returns how long it takes from now until n more units are free, in a pool with free
// units that nobody has taken yet. most is zero if that is unknown. Leases that have lasted
// longer than any before count as never ending.
func (o *outlook) freed(now time.Duration, n, free int) (likely, most time.Duration) {
	if n <= 0 {
		return 0, 0
	}
	overdue := sort.Search(len(o.latest), func(i int) bool { return o.latest[i].at > now })
	most, ok := o.latest.nth(overdue, now, n, free, o.longest)
	if !ok {
		return 0, 0
	}
	likely, _ = o.soonest.nth(0, now, n, free, o.typical)
	return min(likely, most), most
}

// nth returns how long it takes from now until the n-th unit becomes free; false if that is
// unknown. It assumes that units become free at the endings from the index first on, that the
// free units are taken now, and that each unit is held for hold whenever it is taken again.
func (e endings) nth(first int, now time.Duration, n, free int, hold time.Duration) (time.Duration, bool) {
	before, held := 0, 0
	if first > 0 {
		before = e[first-1].sum
	}
	if len(e) > 0 {
		held = e[len(e)-1].sum - before
	}
	units := held + max(free, 0)
	if units == 0 || n > held && hold == 0 {
		return 0, false
	}
	rounds := time.Duration((n - 1) / units)
	if hold > 0 && rounds > never/2/hold {
		return 0, false // longer than anybody waits
	}
	at := hold // for a unit that is free now
	if i := (n-1)%units + 1; i <= held {
		at = max(0, e[sort.Search(len(e), func(k int) bool { return e[k].sum-before >= i })].at-now)
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
