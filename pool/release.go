package pool

import "time"

// Release ends the lease that ref means, or sets it to end delay from now,
// whatever is renewed, and even if its holder dies. A later call may move that
// time either way, but puts off no lease that was broken. Releasing a free name
// does nothing. The Reason is empty if the lease has ended or will; [Other] if
// somebody else has the name, and then nothing has changed; [Unknown] if there
// never was such a name.
func (s *Set) Release(now time.Duration, ref Ref, delay time.Duration) Reason {
	s.Advance(now)
	sl := s.slots[ref.Name]
	switch {
	case sl == nil && !s.wasMadeUp(ref.Name):
		return Unknown
	case sl == nil || sl.lease == nil:
		return ""
	case !ref.matches(sl.lease.Lease):
		return Other
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
	l.pool.outlook.spoil()
	l.Provisional = false // a client that puts the release off has received the grant
	s.schedule(&l.timer, l.Ends())
	s.note(Delayed).Lease = l.Lease
	return ""
}

// Finish is [Set.Release] without a delay, of a lease whose command ended by itself,
// with that result. It is passed on to the requests that joined its request, when the
// last of its leases has ended so; of one that was broken it is not.
func (s *Set) Finish(now time.Duration, ref Ref, result Result) Reason {
	s.Advance(now)
	if sl := s.slots[ref.Name]; sl != nil && sl.lease != nil && ref.matches(sl.lease.Lease) && sl.lease.request != nil {
		sl.lease.request.result = result
	}
	return s.Release(now, ref, 0)
}
