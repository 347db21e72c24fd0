package pool

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The rules by which a limit moves. They are the same for all pools: an operator who does not
// know the limit of an account does not know better rules either. The simulation in
// scripts/bench (row adapt) shows their effect.
const (
	// moveBy is the divisor of a move: the limit moves by a tenth.
	moveBy = 10
	// throttledWindow is how close together leases must be reported as throttled to cut the limit.
	// One alone may be a mistake, or caused by somebody else.
	throttledWindow = 5 * time.Minute
	// usualKept is how many leases tell what part is usually reported as throttled: beyond it, half
	// of what was counted is forgotten. Until usualFew were counted, that part counts as smaller.
	usualKept, usualFew = 1000, 100
	// surelyBelow is the limit below which one throttled lease is enough: with so
	// few leases, a second one comes too late.
	surelyBelow = 10
	// firstGate is by which factor more leases must end well before the limit returns to where
	// it was cut. The factor doubles with each failure up to lastGate, so that the limit does
	// not run into the same wall every hour.
	firstGate, lastGate = 4, 16
	// fullTenths is how many tenths of the limit must be in use for a lease that ends well to
	// count, unless somebody waits for the limit or its pace: an account with little load does not
	// show how much it bears.
	fullTenths = 9
)

// usualSteps are the percentages of leases that are usually reported as throttled from which on a
// cut takes one lease more: three, four and five instead of two. If 5 % of 32 leases of 20 minutes
// are reported by mistake, two come that close together every 50 minutes, which is sooner than the
// limit passes its wall; four do every eight hours. If the account throttles, four come a minute or
// two later than two.
var usualSteps = [...]int{1, 3, 7}

// Adapt makes a pool find its limit from what holders report; see [Set.Report].
type Adapt struct {
	Floor int // the least limit; zero: 1
	Start int // the first limit; zero: the capacity
}

// check reports what is wrong with a for a pool of capacity units.
func (a Adapt) check(capacity int) error {
	var errs []error
	if a.Floor < 0 || a.Floor > capacity {
		errs = append(errs, fmt.Errorf("the floor of the limit is %d: want 1 to the capacity of %d", a.Floor, capacity))
	}
	if a.Start < 0 || a.Start > capacity {
		errs = append(errs, fmt.Errorf("the limit starts at %d: want 1 to the capacity of %d", a.Start, capacity))
	} else if a.Start > 0 && a.Start < a.Floor {
		errs = append(errs, fmt.Errorf("the limit starts at %d, below its floor of %d", a.Start, a.Floor))
	}
	return errors.Join(errs...)
}

// Adaptation is the limit of a pool and what moves it. It knows nothing of pools: its methods
// are given the reports, the floor and the capacity.
//
// A cut remembers the limit before it as the wall. Below the wall the limit rises by a tenth at
// a time, up to one below the wall. The step from there to the wall takes more leases, by a
// factor: the gate. A cut at the wall doubles the gate. When leases that began at the wall end
// well, the wall is forgotten.
type Adaptation struct {
	Limit int
	Wall  int // the limit before the last cut; zero: the limit has passed it since, or was never cut
	Gate  int // the factor of the leases that the step to the wall takes; zero: firstGate

	// OK is how many units ended well since the last move, while the pool was in full use.
	OK int
	// Cut is the generation of the newest lease at the last cut. Reports of this lease and of
	// older ones do not cut again: they ran under the limit that was cut.
	Cut uint64
	// Risen is the generation of the newest lease at the last rise.
	Risen uint64
	// Suspect is the generation of the last throttled lease since the last cut, among those
	// newer than Cut. SuspectAt is when it was reported. Zero: there is none. Suspects is how many
	// there are, each reported within throttledWindow of the one before.
	Suspect   uint64
	SuspectAt time.Duration
	Suspects  int

	// UsualThrottled and UsualOK count leases of all the time, while the limit was not at the wall:
	// suspects that did not cut it, and leases that ended well, with the pool in full use or not.
	UsualThrottled, UsualOK int
}

// throttled notes that the account throttled the lease of a generation. It cuts the limit or
// makes the lease the suspect. newest is the generation that was granted last.
func (a *Adaptation) throttled(now time.Duration, generation, newest uint64, floor int) {
	if generation <= a.Cut || generation == a.Suspect {
		return
	}
	if now-a.SuspectAt > throttledWindow {
		a.countUsual(&a.UsualThrottled, a.Suspects)
		a.Suspects = 0
	}
	a.Suspects++
	if a.Suspects < a.enough() {
		a.Suspect, a.SuspectAt = generation, now
		return
	}
	a.OK, a.Cut, a.Suspect, a.SuspectAt, a.Suspects = 0, newest, 0, 0, 0
	// Rounded up: while the limit is too high, every lease that is granted is throttled.
	to := max(floor, a.Limit-(a.Limit+moveBy-1)/moveBy)
	if to >= a.Limit {
		return
	}
	if a.atWall() {
		a.Gate = min(2*max(a.Gate, firstGate), lastGate)
	}
	a.Wall, a.Limit = a.Limit, to
}

// enough is how many suspects cut the limit.
func (a *Adaptation) enough() int {
	if a.Limit < surelyBelow {
		return 1
	}
	n := 2
	for _, percent := range usualSteps {
		if 100*a.UsualThrottled >= percent*(a.UsualThrottled+a.UsualOK+usualFew) {
			n++
		}
	}
	return n
}

// countUsual adds n to one of the counts of what is usual. At the wall, reports are no usual ones.
func (a *Adaptation) countUsual(count *int, n int) {
	if a.atWall() {
		return
	}
	*count += n
	if a.UsualThrottled+a.UsualOK > usualKept {
		a.UsualThrottled /= 2
		a.UsualOK /= 2
	}
}

// endedOK notes that units of a lease of a generation ended without being throttled, while the
// pool was in full use. That may raise the limit. newest is the generation that was granted
// last.
func (a *Adaptation) endedOK(units int, generation, newest uint64, capacity int) {
	if a.atWall() && generation <= a.Risen {
		return // it began below the wall
	}
	need, to := a.Limit, a.Limit+max(1, a.Limit/moveBy)
	if a.Limit < a.Wall {
		if to = min(to, a.Wall-1); to <= a.Limit {
			need, to = need*max(a.Gate, firstGate), a.Limit+1
		}
	}
	if a.OK = min(a.OK+units, need); a.OK < need {
		return
	}
	if a.atWall() {
		a.Wall, a.Gate = 0, 0
	}
	if to = min(to, capacity); to > a.Limit {
		a.Limit, a.OK, a.Risen = to, 0, newest
	}
}

// takeBack subtracts units that were counted as ended well. A rise of the limit stays.
func (a *Adaptation) takeBack(units int) { a.OK = max(0, a.OK-units) }

// atWall reports whether the limit has reached the one at which it was last cut.
func (a *Adaptation) atWall() bool { return a.Wall > 0 && a.Limit >= a.Wall }

// full reports whether inUse units put a pool with that limit to full use, whoever waits.
func full(inUse, limit int) bool { return 10*inUse >= fullTenths*limit }

// limit says how many units of a pool may be in use: the capacity, unless the pool
// adapts. The zero limit is that of a retired pool.
type limit struct {
	capacity int
	adapt    *Adapt
	reports  Reports // without a Type: there were none
}

// configure sets the capacity and the Adapt of a pool. Its reports stay.
func (l *limit) configure(c Config) { l.capacity, l.adapt = c.Capacity(), c.Adapt }

// now returns the limit as it is now.
func (l *limit) now() int {
	if l.adapt == nil {
		return l.capacity
	}
	found := cmp.Or(l.reports.Limit, l.adapt.Start, l.capacity)
	return min(max(found, l.floor()), l.capacity)
}

// move applies a report to the limit as it is now. A limit that does not move stays as it was found, so
// that it outlives a capacity that is smaller for a while.
func (l *limit) move(report func()) {
	found, now := l.reports.Limit, l.now()
	l.reports.Limit = now
	if report(); l.reports.Limit == now {
		l.reports.Limit = found
	}
}

// floor returns the least limit of a pool that adapts.
func (l *limit) floor() int { return min(max(l.adapt.Floor, 1), l.capacity) }

// throttled counts a lease that ran at a limit and was throttled; newest is the
// generation that was granted last.
func (l *limit) throttled(now time.Duration, e EndedLease, newest uint64) {
	l.tally(e.Limit).Throttled++
	if l.adapt != nil {
		l.move(func() { l.reports.throttled(now, e.Generation, newest, l.floor()) })
	}
}

// endedOK counts a lease that ended without being throttled.
func (l *limit) endedOK(e EndedLease, newest uint64) {
	l.tally(e.Limit).OK++
	if l.adapt == nil {
		return
	}
	l.move(func() {
		l.reports.countUsual(&l.reports.UsualOK, 1)
		if e.Full {
			l.reports.endedOK(e.Units, e.Generation, newest, l.capacity)
		}
	})
}

// takeBack undoes an endedOK. A rise of the limit stays.
func (l *limit) takeBack(e EndedLease) {
	t := l.tally(e.Limit)
	t.OK = max(0, t.OK-1) // zero: the tally was dropped since
	if l.adapt != nil && e.Full {
		l.reports.takeBack(e.Units)
	}
}

// tally returns the counts at limit, which may be new.
func (l *limit) tally(limit int) *Tally {
	all := &l.reports.Tally
	i, found := slices.BinarySearchFunc(*all, limit, func(t Tally, limit int) int { return cmp.Compare(t.Limit, limit) })
	if !found {
		if len(*all) == MaxTally { // the furthest is at one of the ends
			if first, last := (*all)[0].Limit, (*all)[MaxTally-1].Limit; limit-first > last-limit {
				*all, i = slices.Delete(*all, 0, 1), i-1
			} else {
				*all, i = (*all)[:MaxTally-1], min(i, MaxTally-1)
			}
		}
		*all = slices.Insert(*all, i, Tally{Limit: limit})
	}
	return &(*all)[i]
}
