package pool

import (
	"cmp"
	"slices"
	"time"
)

// LongestDelay is for how long the release of a lease may be put off in a pool without a MaxTTL.
const LongestDelay = 24 * time.Hour

// LongestDelay returns for how long the release of a lease of a pool may be put off, since nobody needs
// to renew it meanwhile: for its MaxTTL, if it has one. [Set.Release] does not check it.
func (s *Set) LongestDelay(typ string) time.Duration {
	if p := s.types[typ]; p != nil {
		return cmp.Or(p.MaxTTL, LongestDelay)
	}
	return LongestDelay
}

// Release ends the lease that ref means, or the reservation of its owner if ref has no generation
// and the owner does not hold the name. With a delay it makes the lease end delay from now,
// even if somebody renews it or its holder dies. A later call may move that time either way,
// but cannot postpone the end of a broken lease. Releasing a free name does nothing.
//
// The Reason is empty if the lease has ended or will end; [Taken] if another has reserved the name;
// [Other] if somebody else has the name, which changes nothing; [Later] if the owner got it again
// since; [Unknown] if there never was such a name.
func (s *Set) Release(now time.Duration, ref Ref, delay time.Duration) Reason {
	s.Advance(now)
	sl := s.slots[ref.Name]
	switch {
	case ref.Hidden, sl == nil && !s.wasMadeUp(ref.Name):
		return Unknown
	case sl == nil:
		return ""
	case sl.lease != nil && ref.matches(&sl.lease.Lease):
	case sl.reserved.isMeant(ref):
		return s.releaseReserved(sl, ref, delay)
	case sl.lease == nil:
		return ""
	default:
		return sl.lost(ref)
	}
	l := sl.lease
	if delay <= 0 {
		s.end(l, Released)
		s.serve()
		return ""
	}
	at := later(s.now, delay)
	if l.Broken != "" {
		at = min(at, l.Ends())
	}
	l.ReleaseAt = at
	l.foresee()
	l.Provisional = false // a client that delays the release has received the grant
	s.schedule(&l.timer, l.Ends())
	s.note(Delayed).Lease = l.Lease
	return ""
}

// Finish is [Set.Release] without a delay, for a lease whose command ended by itself with
// result. If it is the last lease of its request, the result goes to the requests that joined
// it; but not if one of its leases was broken or expired.
func (s *Set) Finish(now time.Duration, ref Ref, result Result) Reason {
	s.Advance(now)
	if sl := s.slots[ref.Name]; sl != nil && sl.lease != nil && ref.matches(&sl.lease.Lease) && sl.lease.request != nil {
		r := sl.lease.request
		r.result = result
		defer func() { r.result = 0 }()
	}
	return s.Release(now, ref, 0)
}

// ReleaseAll takes every request off the queue whose owner is meant, the newest first, and then
// ends every lease of such an owner, in the order of their grants. So none of these requests
// gets a lease that is released here. The ids of requests that can be repeated are remembered,
// as by [Set.Cancel]. It returns the names that were held, and how many requests waited.
func (s *Set) ReleaseAll(now time.Duration, meant func(owner string) bool) (names []string, withdrawn int) {
	s.Advance(now)
	var waiting []*request
	var held []*lease
	consider := func(requests ...*request) {
		for _, r := range requests {
			if meant(r.Owner) {
				waiting = append(waiting, r)
			}
		}
	}
	for _, p := range s.pools {
		for _, l := range p.held.items {
			if meant(l.Owner) {
				held = append(held, l)
			}
			if run := l.request; run != nil && run.leases[0] == l {
				consider(run.followers...)
			}
		}
		for _, r := range p.queue {
			if r.main == nil {
				consider(r)
				consider(r.followers...)
			}
		}
	}
	// A follower goes before its leader, which arrived earlier: otherwise it would take the
	// leader's place.
	slices.SortFunc(waiting, func(a, b *request) int { return cmp.Compare(b.arrival, a.arrival) })
	for _, r := range waiting {
		if r.Anonymous {
			s.drop(r, ErrEnded)
		} else {
			s.dropForGood(r, ErrEnded, Ended{})
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
