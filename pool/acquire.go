package pool

import (
	"errors"
	"fmt"
	"time"
)

// Why an Acquire gets no lease.
var (
	ErrUnknownType = errors.New("there is no pool of this type")
	ErrTooMany     = errors.New("the pool can never give that many")
	ErrQueueFull   = errors.New("too many requests wait for this pool")
	ErrExhausted   = errors.New("no lease was free within the wait")
	ErrEnded       = errors.New("the request has ended or was cancelled")
	ErrConflict    = errors.New("the request id stands for another request")
)

// Request is what an Acquire asks for.
type Request struct {
	// ID is random, and made once per request: the same ID is the same
	// request, however often it arrives. It is the caller's to choose the IDs
	// of Once requests so that no client can send them.
	ID    string
	Type  string
	Count int // how many names, together; less than 1 counts as 1
	Owner string
	TTL   time.Duration // zero: the pool's default; bounded by the pool's maximum

	// Once marks a request that cannot be repeated, as those of version 1 of
	// the wire: its grant is firm at once, its wait ends with its connection,
	// and its ID is not remembered.
	Once bool
	// Try marks a request that does not wait, or not any longer if it is
	// queued already: if it cannot be had at once, it gets [ErrExhausted].
	Try bool
}

// request is a request that waits, or was granted and has leases left.
type request struct {
	Request
	pool    *pool
	arrival uint64 // position in the order of arrivals
	arrived time.Duration

	// While it waits: connections that wait with it, and, once there are none,
	// until when it counts as there and until when its place is kept.
	attached   int
	thereUntil time.Duration
	keptUntil  time.Duration
	timer      timer
	there      int // in pool.there

	leases []*lease // those that have not ended; none while it waits
}

// Acquire returns the leases of a request, or none if it is queued. A request
// that is queued has then one more connection attached; [Set.Detach] is its
// counterpart. A grant appears as [Granted] among the changes, whether it was
// made here or later.
//
// Asked again, a request that was granted gets the same leases, as far as they
// have not ended, and 30 more seconds to confirm them if it has not yet: its
// client is evidently there.
func (s *Set) Acquire(now time.Duration, q Request) ([]Lease, error) {
	s.Advance(now)
	q.Count = max(q.Count, 1)
	if r := s.requests[q.ID]; r != nil {
		return s.again(r, q)
	}
	if s.ended.has(q.ID) {
		return nil, ErrEnded
	}
	p := s.types[q.Type]
	if p == nil || p.retired {
		return nil, ErrUnknownType
	}
	if q.Count > p.capacity() {
		return nil, p.tooMany(q.Count)
	}
	q.TTL = p.ttl(q.TTL)
	r := &request{Request: q, pool: p, arrived: s.now}
	if p.there.Len() == 0 && p.fits(q.Count) && p.due() <= s.now {
		p.since = s.now
		s.grant(r)
		return r.values(), nil
	}
	if q.Try {
		return nil, ErrExhausted
	}
	if len(p.queue) >= p.MaxWaiters {
		return nil, fmt.Errorf("%w: %d do", ErrQueueFull, len(p.queue))
	}
	s.enqueue(r)
	s.serve() // nothing can be granted, but the pace may be all that is in the way
	return nil, nil
}

// tooMany says that no more than its capacity is ever free in p.
func (p *pool) tooMany(count int) error {
	return fmt.Errorf("%w: %d asked for, %d there", ErrTooMany, count, p.capacity())
}

// again is an Acquire with an id that is known.
func (s *Set) again(r *request, q Request) ([]Lease, error) {
	if r.Type != q.Type || r.Count != q.Count || r.Owner != q.Owner {
		return nil, ErrConflict
	}
	if r.queued() {
		r.attached++
		r.thereUntil = 0
		s.timers.remove(&r.timer)
		s.present(r)
		s.serve()
	}
	if !r.queued() {
		for _, l := range r.leases {
			if l.Provisional && l.Broken == "" {
				l.Expires = later(s.now, ProvisionalTTL)
				s.schedule(&l.timer, l.Ends())
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

// Cancel ends a request for good: it is taken off the queue, or its leases end.
// The id is remembered for [EndedKept], also one that was never seen: a copy of
// the request that is still under way gets [ErrEnded]. It returns the names
// that were held.
func (s *Set) Cancel(now time.Duration, id string) (names []string) {
	s.Advance(now)
	r := s.requests[id]
	switch {
	case r == nil:
		if !s.ended.has(id) {
			s.remember(id)
		}
	case r.queued():
		s.drop(r, ErrEnded)
		s.remember(id)
	default:
		for len(r.leases) > 0 { // end takes them out, and remembers with the last
			names = append(names, r.leases[0].Name)
			s.end(r.leases[0], Released)
		}
	}
	s.serve()
	return names
}

// values returns the leases of r as they are now.
func (r *request) values() []Lease {
	leases := make([]Lease, len(r.leases))
	for i, l := range r.leases {
		leases[i] = l.Lease
	}
	return leases
}

// grant gives r, which fits and is not queued, its leases.
func (s *Set) grant(r *request) {
	p := r.pool
	r.TTL = p.ttl(r.TTL) // the maximum may have changed while it waited
	id, ttl := r.ID, ProvisionalTTL
	if r.Once {
		id, ttl = "", r.TTL
	} else {
		s.requests[r.ID] = r
	}
	p.spend(s.now, r.Count)
	for _, sl := range p.free[:r.Count] {
		s.generation++
		s.install(Lease{
			Name: sl.name, Type: p.Type, Generation: s.generation, Owner: r.Owner,
			RequestID: id, Count: r.Count,
			TTL: r.TTL, Granted: s.now, Expires: later(s.now, ttl), Provisional: !r.Once,
		}, sl, p, r)
	}
	clear(p.free[:r.Count])
	p.free = p.free[r.Count:]
	s.changes = append(s.changes, Change{Kind: Granted, ID: r.ID, Leases: r.values(), Took: s.now - r.arrived})
}

// remember makes id one that has ended, and forgets others if there are too many.
func (s *Set) remember(id string) {
	for len(s.ended.order) >= s.ended.limit {
		s.forget()
	}
	e := Ended{ID: id, Until: later(s.now, EndedKept)}
	s.ended.push(e)
	s.changes = append(s.changes, Change{Kind: Remembered, Ended: e})
}

// forget forgets the id that ended first.
func (s *Set) forget() {
	s.changes = append(s.changes, Change{Kind: Forgotten, Ended: s.ended.pop()})
}
