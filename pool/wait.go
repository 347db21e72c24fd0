package pool

import (
	"slices"
	"time"
)

// Detach says that one connection that waited with request id is gone. After the last one, the
// waiter stays active for linger, which is zero if the connection broke. Its place is kept for
// [PlaceKept]; while it is not active, other requests may overtake it. An anonymous request is
// dropped at once.
//
// It does nothing if the request does not wait.
func (s *Set) Detach(now time.Duration, id string, linger time.Duration) {
	s.Advance(now)
	r := s.requests[id]
	if r == nil || !r.queued() || r.attached == 0 {
		return
	}
	r.attached--
	r.activeUntil = max(r.activeUntil, later(s.now, linger))
	if r.attached > 0 {
		return
	}
	if r.Anonymous {
		s.drop(r, nil)
	} else {
		r.keptUntil = later(s.now, PlaceKept)
		s.leave(r)
	}
	s.serve()
}

// Withdraw takes a request off the queue because its wait is over, and reports whether it was
// queued. Its id is not remembered. Connections that still wait with it get [ErrExhausted].
// Withdraw does nothing to a request that joined a run which has begun: its wait timeout ended
// when the run began.
func (s *Set) Withdraw(now time.Duration, id string) bool {
	s.Advance(now)
	r := s.requests[id]
	if r == nil || !r.queued() || !r.lead().queued() {
		return false
	}
	s.drop(r, ErrExhausted)
	s.serve()
	return true
}

// Cancel ends a request for good: it is taken off the queue, or its leases end. The id is
// remembered for [EndedKept], even if it was never seen: a copy of the request that is still
// under way gets [ErrEnded]. It returns the names that were held.
func (s *Set) Cancel(now time.Duration, id string) (names []string) {
	s.Advance(now)
	r := s.requests[id]
	switch {
	case r == nil:
		if !s.ended.has(id) {
			s.remember(Ended{ID: id})
		}
	case r.queued():
		s.drop(r, ErrEnded)
		s.remember(Ended{ID: id})
	default:
		for _, l := range slices.Clone(r.leases) { // end takes them out of r.leases, and remembers the id with the last
			names = append(names, l.Name)
			s.end(l, Released)
		}
	}
	s.serve()
	return names
}
