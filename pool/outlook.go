package pool

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"time"
)

// outlook is when the leases of a pool are expected to end, and when its lock delays end. The
// expected end of a lease does not move while the lease is held. So an estimate made from such
// ends falls as time passes, and does not start over.
type outlook struct {
	fresh   bool
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

// refresh computes the outlook from the leases and lock delays of a pool, and from past, which
// says how long earlier leases were held.
func (o *outlook) refresh(past *history, leases iter.Seq[Lease], locks iter.Seq[Locked]) {
	o.fresh, o.known = true, past.known()
	o.typical, o.longest = past.spread()
	o.soonest, o.latest = o.soonest[:0], o.latest[:0]
	for l := range leases {
		soonest, latest := o.ends(&l)
		o.soonest = append(o.soonest, ending{at: soonest, units: l.Units})
		o.latest = append(o.latest, ending{at: latest, units: l.Units})
	}
	for l := range locks {
		over := ending{at: l.Until, units: l.Units}
		o.soonest, o.latest = append(o.soonest, over), append(o.latest, over)
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
