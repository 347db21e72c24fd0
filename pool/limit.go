package pool

import (
	"cmp"
	"slices"
	"time"
)

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
	now := cmp.Or(l.reports.Limit, l.adapt.Start, l.capacity)
	return min(max(now, l.floor()), l.capacity)
}

// floor returns the least limit of a pool that adapts.
func (l *limit) floor() int { return min(max(l.adapt.Floor, 1), l.capacity) }

// throttled counts a lease that ran at a limit and was throttled; newest is the
// generation that was granted last.
func (l *limit) throttled(now time.Duration, e EndedLease, newest uint64) {
	l.tally(e.Limit).Throttled++
	if l.adapt != nil {
		l.reports.Limit = l.now() // the bounds may have changed since
		l.reports.throttled(now, e.Generation, newest, l.floor())
	}
}

// endedOK counts a lease that ended without being throttled.
func (l *limit) endedOK(e EndedLease, newest uint64) {
	l.tally(e.Limit).OK++
	if l.adapt != nil && e.Full {
		l.reports.Limit = l.now()
		l.reports.endedOK(e.Units, e.Generation, newest, l.capacity)
	}
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
