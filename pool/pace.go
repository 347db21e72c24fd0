package pool

import (
	"math"
	"time"
)

// AutoPace returns the pace at which a pool of capacity names that are held for
// hold each is just never empty: grants come as evenly as they can, and as many
// per hour as without a pace. It is zero if hold or capacity is not positive.
func AutoPace(hold time.Duration, capacity int) time.Duration {
	if hold <= 0 || capacity <= 0 {
		return 0
	}
	return hold / time.Duration(capacity) // rounded down, since a longer one would cost grants
}

// rhythm says when the next grant of a pool is due: for a grant of n units, n
// paces after the time at which that one was due, even if it was made later,
// because no name was free or the caller's timer was slow. If every late grant
// put off all that follow, a pool whose names come free at odd moments would
// lose a little with each, and give out less than capacity/hold.
//
// The time by which a grant was late is made up for at once, so it is bounded, or
// the rhythm would save up the very burst that it is to prevent:
//
//   - Only time in which there was a waiter that was next counts as late. A pool that
//     lies idle saves up nothing: when fifty jobs come to it at once, the first is
//     granted at once and each other a full pace after the one before it.
//   - At most half a pace counts. Of grants of one name each, any span of time
//     then has at most span/pace + 1/2, rounded up. In a minute of a pool of 50
//     that are held for 20 minutes these are three, where 2.5 are the mean. If a
//     whole pace counted they were four, and if nothing did, the pool would lose
//     up to twice as many grants when holds vary.
type rhythm struct {
	start      time.Duration // when the last grant counts as made
	count      int           // for how many units; zero: there was none
	generation uint64        // of its last lease
}

// due returns when pace allows the next grant.
func (r rhythm) due(pace time.Duration) time.Duration {
	n := time.Duration(r.count)
	if n > 0 && pace > math.MaxInt64/n {
		pace = math.MaxInt64 / n // it never comes
	}
	return later(r.start, n*pace)
}

// spend notes a grant of units at now, of a pool that has had a waiter that was
// next since nextSince.
func (r *rhythm) spend(pace, nextSince, now time.Duration, units int, generation uint64) {
	*r = rhythm{start: max(r.due(pace), nextSince, now-pace/2), count: units, generation: generation}
}

// resume notes a lease from before a restart, after all with lower generations.
func (r *rhythm) resume(l Lease, now time.Duration) {
	if l.Generation > r.generation {
		*r = rhythm{start: min(l.Granted, now), count: max(l.Count, l.Units), generation: l.Generation}
	}
}
