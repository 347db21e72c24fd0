package pool

import (
	"math"
	"time"
)

// pace returns the least time between two grants, at the present limit.
func (p *pool) pace() time.Duration {
	if p.Adapt != nil && p.Hold > 0 {
		return AutoPace(p.Hold, p.limit.now())
	}
	return p.Pace
}

// due returns when the pace allows the next grant.
func (p *pool) due() time.Duration { return p.rhythm.due(p.pace()) }

// dueIn returns how long the pace still delays the next grant.
func (p *pool) dueIn(now time.Duration) time.Duration { return max(0, p.due()-now) }

// spend notes a grant of units at now, or a growth by them; leases up to generation count.
func (p *pool) spend(now time.Duration, units int, generation uint64) {
	p.rhythm.spend(p.pace(), p.nextSince, now, units, generation)
}

// due returns when the pace of p allows a grant to r.
func (g *ledger) due(p *pool, r *request) time.Duration {
	if r.Overcommit {
		return g.now
	}
	return p.due()
}

// AutoPace returns hold/capacity, the pace of a pool whose units are all in use, each for hold.
// Grants then come as evenly as they can, and as many per hour as without a pace. It is zero if
// hold or capacity is not positive.
func AutoPace(hold time.Duration, capacity int) time.Duration {
	if hold <= 0 || capacity <= 0 {
		return 0
	}
	return hold / time.Duration(capacity) // rounded down: a longer pace would cost grants
}

// Pacing says from which grant or growth the pace of a pool counts.
type Pacing struct {
	Type       string
	Generation uint64        // newer leases are not counted
	Start      time.Duration // on the lease clock: when the grant, or one before it that was due, counts as made
	Count      int           // how many units were granted from then on; zero: there is no such pool
}

// rhythm says when the next grant of a pool is due: n paces after the last grant, of n units,
// was due. The last grant may have been made later than it was due, because no unit was free or
// the caller's timer was slow. If every late grant delayed all that follow, a pool whose units
// come free at odd moments would lose a little with each, and grant less than capacity/hold.
//
// The time by which a grant was late is made up for at once. So it is bounded, or the rhythm
// would save up the very burst that it must prevent:
//
//   - Only time in which a waiter was next counts as late. An idle pool saves up nothing: when
//     fifty jobs come to it at once, the first is granted at once, and each other a full pace
//     after the one before it.
//   - At most half a pace counts. Then any span of time has at most span/pace + 1/2 grants of
//     one unit each, rounded up. For a pool of 50 units that are held for 20 minutes, this is
//     three grants a minute, where the mean is 2.5. If a whole pace counted, it would be four.
//     If nothing counted, the pool would lose up to twice as many grants when holds vary.
type rhythm struct {
	start      time.Duration // when the last grant that was due counts as made
	count      int           // how many units it, and those with Overcommit and growths after it, took; zero: there was none
	generation uint64        // newer leases are not counted
}

// due returns when pace allows the next grant.
func (r rhythm) due(pace time.Duration) time.Duration {
	n := time.Duration(r.count)
	if n > 0 && pace > math.MaxInt64/n {
		pace = math.MaxInt64 / n // too far away to come
	}
	return later(r.start, n*pace)
}

// spend notes a grant of units at now, in a pool that has had a waiter that is next since
// nextSince.
func (r *rhythm) spend(pace, nextSince, now time.Duration, units int, generation uint64) {
	if r.due(pace) > now { // by overcommit or a growth; the debt is in units, so that another pace may count for it
		r.count, r.generation = r.count+units, generation
		return
	}
	*r = rhythm{start: max(r.due(pace), nextSince, now-pace/2), count: units, generation: generation}
}

// resume notes a lease from before a restart. Leases come in the order of their generations.
func (r *rhythm) resume(l *Lease, now time.Duration) {
	if l.Generation > r.generation {
		*r = rhythm{start: min(l.Granted, now), count: l.together(), generation: l.Generation}
	}
}
