package pool

import "time"

func (r *request) queued() bool { return len(r.leases) == 0 }

// enqueue makes r wait, with one connection attached.
func (s *Set) enqueue(r *request) {
	s.arrivals++
	r.arrival = s.arrivals
	r.attached = 1
	r.timer.on = r
	r.pool.queue.push(r)
	s.present(r)
	s.requests[r.ID] = r
	s.waiting++
}

// present counts r among the waiters that are there.
func (s *Set) present(r *request) {
	p := r.pool
	if p.there.Len() == 0 {
		p.since = s.now
	}
	p.there.put(r)
	s.touch(p)
}

// dequeue takes r off its queue.
func (s *Set) dequeue(r *request) {
	r.pool.queue.remove(r)
	r.pool.there.remove(r)
	s.timers.remove(&r.timer)
	delete(s.requests, r.ID)
	s.waiting--
}

// drop takes r off its queue without a lease; err is what its connections are
// told.
func (s *Set) drop(r *request, err error) {
	s.dequeue(r)
	s.touch(r.pool) // it may have been in the way
	s.changes = append(s.changes, Change{Kind: Dropped, ID: r.ID, Err: err, Took: s.now - r.arrived})
}

// Detach says that one connection which waited with request id is gone. When
// none is left, the waiter counts as there for linger, which is zero if the
// connection broke; its place is kept for [PlaceKept], in which others may
// overtake it. A request that cannot be repeated is gone at once.
//
// It does nothing if the request does not wait.
func (s *Set) Detach(now time.Duration, id string, linger time.Duration) {
	s.Advance(now)
	r := s.requests[id]
	if r == nil || !r.queued() || r.attached == 0 {
		return
	}
	r.attached--
	r.thereUntil = max(r.thereUntil, later(s.now, linger))
	if r.attached > 0 {
		return
	}
	if r.Once {
		s.drop(r, nil)
	} else {
		r.keptUntil = later(s.now, PlaceKept)
		r.away(s)
	}
	s.serve()
}

// away moves a waiter without connections through its states: there for a
// little longer, then keeping its place, then gone.
func (r *request) away(s *Set) {
	if s.now < r.thereUntil {
		s.schedule(&r.timer, r.thereUntil)
		return
	}
	if r.pool.there.has(r) {
		r.pool.there.remove(r)
		s.touch(r.pool) // it may have been in the way
	}
	if s.now < r.keptUntil {
		s.schedule(&r.timer, r.keptUntil)
		return
	}
	s.drop(r, nil)
}

func (r *request) timeout(s *Set) { r.away(s) }

// Withdraw takes a request off the queue because its wait is over, and reports
// whether it was queued. The id is not remembered. Connections that still wait
// with it are told [ErrExhausted].
func (s *Set) Withdraw(now time.Duration, id string) bool {
	s.Advance(now)
	r := s.requests[id]
	if r == nil || !r.queued() {
		return false
	}
	s.drop(r, ErrExhausted)
	s.serve()
	return true
}
