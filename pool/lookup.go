package pool

import "time"

// Held returns the lease of name; false if nobody holds it.
func (s *Set) Held(now time.Duration, name string) (Lease, bool) {
	s.Advance(now)
	sl := s.slots[name]
	if sl == nil || sl.lease == nil {
		return Lease{}, false
	}
	return sl.lease.Lease, true
}

// OwnerOf returns who made a request that waits or holds leases; false if there
// is no such request, or it has ended.
func (s *Set) OwnerOf(now time.Duration, id string) (string, bool) {
	s.Advance(now)
	r := s.requests[id]
	if r == nil {
		return "", false
	}
	return r.Owner, true
}

// Totals is [Set.Pools] without the leases, which takes no longer for many
// leases than for few.
func (s *Set) Totals(now time.Duration) []PoolStatus {
	s.Advance(now)
	var all []PoolStatus
	for _, p := range s.pools {
		if p.retired && p.held.Len() == 0 {
			continue
		}
		st := PoolStatus{
			Type: p.Type, Capacity: p.capacity(), InUse: p.held.Len(), Waiting: len(p.queue),
			NextGrantIn: p.dueIn(s.now),
		}
		if len(p.queue) > 0 {
			st.OldestWaiting = s.now - p.queue[0].arrived
		}
		all = append(all, st)
	}
	return all
}
