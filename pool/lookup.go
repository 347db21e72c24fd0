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
