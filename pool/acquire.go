package pool

import (
	"fmt"
	"time"
)

// Acquire returns the leases of a request, or none if it is queued. A request
// that is queued has then one more connection attached; [Set.Detach] is its
// counterpart. A grant appears as [Granted] among the changes, whether it was
// made here or later.
//
// Asked again, a request that was granted gets the same leases, as far as they
// have not ended, and [ProvisionalTTL] more to confirm them if it has not yet,
// since its client evidently lives.
func (s *Set) Acquire(now time.Duration, q Request) ([]Lease, error) {
	s.Advance(now)
	q.Count = max(q.Count, 1)
	if r := s.requests[q.ID]; r != nil {
		return s.again(r, q)
	}
	if s.ended.has(q.ID) {
		return nil, s.ended.why(q.ID)
	}
	p := s.types[q.Type]
	if p == nil || p.retired {
		return nil, ErrUnknownType
	}
	if q.Count > p.capacity() {
		return nil, p.tooMany(q.Count)
	}
	if q.Anonymous && q.TTL <= 0 {
		q.TTL = p.V1TTL
	}
	q.TTL = p.ttl(q.TTL)
	r := &request{Request: q, pool: p, arrived: s.now}
	if p.active.Len() == 0 && !s.paused(p) && p.fits(q.Count) && p.due() <= s.now {
		p.activeSince = s.now
		s.grant(r, false)
		return r.values(), nil
	}
	if q.Try {
		return nil, ErrExhausted
	}
	if len(p.queue) >= p.MaxWaiters {
		return nil, fmt.Errorf("%w: %d do", ErrQueueFull, len(p.queue))
	}
	s.enqueue(r)
	s.serve() // grants nothing, but may arm the timer of the pace
	return nil, nil
}

// again is an Acquire with an id that is known.
func (s *Set) again(r *request, q Request) ([]Lease, error) {
	if r.Type != q.Type || r.Count != q.Count || r.Owner != q.Owner {
		return nil, ErrConflict
	}
	if r.queued() {
		r.attached++
		s.meet(r)
		s.serve()
	}
	if !r.queued() {
		for _, l := range r.leases {
			if l.Provisional && l.Broken == "" {
				s.renew(l, ProvisionalTTL, false)
			}
		}
		return r.values(), nil
	}
	if q.Try {
		s.drop(r, ErrExhausted)
		s.serve()
		return nil, ErrExhausted
	}
	return nil, nil
}
