package pool

import "time"

// Part is which leases and waiters of a pool somebody looks at.
type Part struct {
	AfterGeneration uint64 // of leases: the first of them follows this generation
	Leases          int    // at most
	AfterPlace      int    // of waiters: the first of them follows this place
	Waiters         int    // at most
}

// Pool returns the state of one pool with a part of its leases and waiters, beyond
// [ListedWaiters] too; false if there is no pool of this type.
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

// Found is what [Set.Find] found: a lease, or a waiter.
type Found struct {
	Type   string
	Lease  *Lease
	Waiter *WaiterStatus
}

// Find returns the leases and waiters that match, pool by pool, in the order of
// [Set.Pool]; most of them at most. match is given an owner, and a name for a
// lease, or the empty string for a waiter. It looks at all of them.
func (s *Set) Find(now time.Duration, most int, match func(owner, requestID, name string) bool) (found []Found) {
	s.Advance(now)
	for _, p := range s.pools {
		for _, l := range p.leases() {
			if len(found) == most {
				return found
			}
			if match(l.Owner, l.RequestID, l.Name) {
				found = append(found, Found{Type: p.Type, Lease: &l})
			}
		}
		for i, r := range p.listed() {
			if len(found) == most {
				return found
			}
			if match(r.Owner, r.ID, "") {
				before := 0
				if r.leader == nil {
					before = p.before(r, i+1)
				}
				w := s.waiterStatus(p, r, i+1, before)
				found = append(found, Found{Type: p.Type, Waiter: &w})
			}
		}
	}
	return found
}

// Request returns a request that waits or holds leases, and when it arrived; false
// if there is no such request, or it has ended.
func (s *Set) Request(now time.Duration, id string) (r Request, arrived time.Duration, ok bool) {
	s.Advance(now)
	if req := s.requests[id]; req != nil {
		return req.Request, req.arrived, true
	}
	return Request{}, 0, false
}
