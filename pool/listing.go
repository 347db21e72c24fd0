package pool

import (
	"cmp"
	"slices"
	"time"
)

// Leases returns at most so many leases of a type, of those whose generation is
// greater than after, what is held longest first. It makes no more than it returns,
// so a long list can be read in parts.
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
	slices.SortFunc(held, func(a, b *lease) int { return cmp.Compare(a.Generation, b.Generation) })
	part := make([]Lease, min(len(held), most))
	for i := range part {
		part[i] = held[i].Lease
	}
	return part
}

// Waiters returns at most so many waiters of a type, of those at places after the
// given one, in the order of the queue. Of a queue it lists the first
// [ListedWaiters]. It makes no more than it returns.
func (s *Set) Waiters(now time.Duration, typ string, after, most int) []WaiterStatus {
	s.Advance(now)
	p := s.types[typ]
	if p == nil {
		return nil
	}
	return s.waiters(p, after, min(most, ListedWaiters-after))
}
