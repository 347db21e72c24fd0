package pool

import (
	"slices"
	"time"
)

// Part selects leases and waiters of a pool.
type Part struct {
	AfterGeneration uint64 // leases with a greater generation
	Leases          int    // of these, the most to list
	AfterPlace      int    // waiters at places after this one
	Waiters         int    // of these, the most to list
}

// Pool returns the state of one pool with a part of its leases and waiters; false if there is
// no pool of this type. Unlike [Set.Waiters] it may list more than [ListedWaiters].
func (s *Set) Pool(now time.Duration, typ string, part Part) (PoolStatus, bool) {
	s.Advance(now)
	p := s.types[typ]
	if p == nil || p.over() {
		return PoolStatus{}, false
	}
	st := s.totals(p)
	_, st.LongestHold = p.past.spread()
	st.Leases = s.Leases(now, typ, part.AfterGeneration, part.Leases)
	st.Waiters = s.waiters(p, part.AfterPlace, part.Waiters)
	return st, true
}

// Leases returns the leases of a type whose generation is greater than after, longest held
// first, and no more than most. It copies only these, so a long list can be read in parts.
func (s *Set) Leases(now time.Duration, typ string, after uint64, most int) []Lease {
	s.Advance(now)
	p := s.types[typ]
	if p == nil || most <= 0 {
		return nil
	}
	var held []*lease
	for _, l := range p.held.items {
		if l.Generation > after {
			held = append(held, l)
		}
	}
	slices.SortFunc(held, compareGrants)
	leases := valuesOf(held[:min(len(held), most)])
	for i := range leases {
		leases[i].Draining = !p.counted() && s.slots[leases[i].Name].pool != p
	}
	return leases
}

// Waiters returns the waiters of a type at places after the given one, in the order of the
// queue, and no more than most. It lists only the first [ListedWaiters] of a queue.
func (s *Set) Waiters(now time.Duration, typ string, after, most int) []WaiterStatus {
	s.Advance(now)
	p := s.types[typ]
	if p == nil {
		return nil
	}
	return s.waiters(p, after, min(most, ListedWaiters-max(after, 0)))
}

// Found is what [Set.Find] found: a lease, or a waiter.
type Found struct {
	Type   string
	Lease  *Lease
	Waiter *WaiterStatus
}

// Find returns the leases and waiters that match, pool by pool, each pool in the order of
// [Set.Pool], and no more than most. match is given the owner, the request id, and the name of
// a lease or the empty string for a waiter. The cost grows with all leases and waiters.
func (s *Set) Find(now time.Duration, most int, match func(owner, requestID, name string) bool) (found []Found) {
	s.Advance(now)
	for _, p := range s.pools {
		for _, l := range p.byGrant() {
			if len(found) == most {
				return found
			}
			if match(l.Owner, l.RequestID, l.Name) {
				value := l.Lease
				found = append(found, Found{Type: p.Type, Lease: &value})
			}
		}
		for i, r := range p.byPlace() {
			if len(found) == most {
				return found
			}
			if match(r.Owner, r.ID, "") {
				before := 0
				if r.leader == nil {
					before = p.before(i + 1)
				}
				w := s.waiterStatus(p, r, i+1, before)
				found = append(found, Found{Type: p.Type, Waiter: &w})
			}
		}
	}
	return found
}
