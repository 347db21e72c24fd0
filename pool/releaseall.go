package pool

import (
	"cmp"
	"slices"
	"time"
)

// ReleaseAll takes every request off the queue whose owner is meant, the newest first, and then
// ends every lease of such an owner, in the order of their grants. So none of these requests
// gets a lease that is released here. The ids of requests that can be repeated are remembered,
// as by [Set.Cancel]. It returns the names that were held, and how many requests waited.
func (s *Set) ReleaseAll(now time.Duration, meant func(owner string) bool) (names []string, withdrawn int) {
	s.Advance(now)
	var waiting []*request
	for _, r := range s.requests {
		if r.queued() && meant(r.Owner) {
			waiting = append(waiting, r)
		}
	}
	// A follower goes before its leader, which arrived earlier: otherwise it would take the
	// leader's place.
	slices.SortFunc(waiting, func(a, b *request) int { return cmp.Compare(b.arrival, a.arrival) })
	for _, r := range waiting {
		s.drop(r, ErrEnded)
		if !r.Anonymous {
			s.remember(Ended{ID: r.ID})
		}
	}
	var held []*lease
	for _, sl := range s.slots {
		if sl.lease != nil && meant(sl.lease.Owner) {
			held = append(held, sl.lease)
		}
	}
	slices.SortFunc(held, compareGrants)
	for _, l := range held {
		names = append(names, l.Name)
		s.end(l, Released)
	}
	s.serve()
	return names, len(waiting)
}
