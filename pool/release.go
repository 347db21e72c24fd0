package pool

import "time"

// Release ends the lease that ref means. With a delay it makes the lease end delay from now,
// even if somebody renews it or its holder dies. A later call may move that time either way,
// but cannot postpone the end of a broken lease. Releasing a free name does nothing. The Reason
// is empty if the lease has ended or will end; [Other] if somebody else has the name, which
// changes nothing; [Later] if the owner got it again since; [Unknown] if there never was such a name.
func (s *Set) Release(now time.Duration, ref Ref, delay time.Duration) Reason {
	s.Advance(now)
	sl := s.slots[ref.Name]
	switch {
	case sl == nil && !s.wasMadeUp(ref.Name):
		return Unknown
	case sl == nil || sl.lease == nil:
		return ""
	case !ref.matches(&sl.lease.Lease):
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
	l.pool.outlook.invalidate()
	l.Provisional = false // a client that delays the release has received the grant
	s.schedule(&l.timer, l.Ends())
	s.note(Delayed).Lease = l.Lease
	return ""
}

// Finish is [Set.Release] without a delay, for a lease whose command ended by itself with
// result. When the last lease of its request has ended, the result goes to the requests that
// joined it; but not if one of its leases was broken or expired.
func (s *Set) Finish(now time.Duration, ref Ref, result Result) Reason {
	s.Advance(now)
	if sl := s.slots[ref.Name]; sl != nil && sl.lease != nil && ref.matches(&sl.lease.Lease) && sl.lease.request != nil {
		sl.lease.request.result = result
	}
	return s.Release(now, ref, 0)
}
