package pool

import (
	"errors"
	"slices"
	"time"
)

// enqueue puts r, a new request, into the queue.
func (g *ledger) enqueue(r *request) {
	g.register(r)
	g.addToQueue(r)
	g.activate(r)
	g.noteWaiter(Queued, r)
}

// clientReturned notes that the client of r has come back.
func (g *ledger) clientReturned(r *request) {
	r.activeUntil = 0
	g.timers.remove(&r.timer)
	if r.missed {
		r.missed = false
		g.noteWaiter(Returned, r)
	}
	g.activate(r)
}

// leave moves a waiter without connections through its states: active for a
// little longer, then keeping its place, then gone.
func (g *ledger) leave(r *request) {
	if g.now < r.activeUntil {
		g.schedule(&r.timer, r.activeUntil)
		return
	}
	g.deactivate(r)
	if g.now < r.keptUntil {
		g.schedule(&r.timer, r.keptUntil)
		return
	}
	g.drop(r, nil)
}

// Detach says that one connection that waited with request id is gone. After the last one, the
// waiter stays active for linger, which is zero if the connection broke. Its place is kept for
// [PlaceKept]; while it is not active, other requests may overtake it. An anonymous request is
// dropped at once.
//
// It does nothing if the request does not wait.
func (s *Set) Detach(now time.Duration, id string, linger time.Duration) {
	s.Advance(now)
	r := s.requests.get(id)
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
// queued. Its id is not remembered. Connections that still wait with it get an [ExhaustedError].
// Withdraw does nothing to a request that joined a run which has begun: its wait timeout ended
// when the run began.
func (s *Set) Withdraw(now time.Duration, id string) bool {
	s.Advance(now)
	r := s.requests.get(id)
	if r == nil || !r.queued() || !r.lead().queued() {
		return false
	}
	s.drop(r, &ExhaustedError{s.standing(r)})
	s.serve()
	return true
}

// Cancel ends a request for good: it is taken off the queue, or its leases end. The id is
// remembered for [EndedKept], even if it was never seen (but see [MaxUnseen]): a copy of the request
// that is still under way gets [ErrEnded]. It returns the names that were held.
func (s *Set) Cancel(now time.Duration, id string) (names []string) {
	s.Advance(now)
	r := s.requests.get(id)
	switch {
	case r == nil:
		if !s.ended.has(id) {
			s.remember(Ended{ID: id, Unseen: true})
		}
	case r.queued():
		s.dropForGood(r, ErrEnded, Ended{})
	default:
		for _, l := range slices.Clone(r.leases) { // end takes them out of r.leases, and remembers the id with the last
			names = append(names, l.Name)
			s.end(l, Released)
		}
	}
	s.serve()
	return names
}

// WaitEnd is how a wait ended without a lease, in a word for people and metrics.
type WaitEnd string

// The ends of a wait.
const (
	WaitTimedOut     WaitEnd = "timed out"
	WaitCancelled    WaitEnd = "cancelled"    // by its client
	WaitGone         WaitEnd = "gone"         // its client did not come back
	WaitRemoved      WaitEnd = "removed"      // by an operator
	WaitReconfigured WaitEnd = "reconfigured" // the pool can no longer serve it
	WaitCoalesced    WaitEnd = "coalesced"    // the run that it joined has ended
	WaitSuperseded   WaitEnd = "superseded"   // by a newer request
)

// WaitEnds are all ends of a wait.
var WaitEnds = []WaitEnd{WaitTimedOut, WaitCancelled, WaitGone, WaitRemoved, WaitReconfigured, WaitCoalesced, WaitSuperseded}

// WaitEnd returns how the wait of a [Dropped] request ended.
func (c *Change) WaitEnd() WaitEnd {
	_, removed := errors.AsType[*RemovedError](c.Err)
	if merged, ok := errors.AsType[*CoalescedError](c.Err); ok {
		if _, ran := merged.Result.ExitCode(); ran {
			return WaitCoalesced
		}
		return WaitSuperseded
	}
	switch {
	case c.Err == nil:
		return WaitGone
	case removed:
		return WaitRemoved
	case errors.Is(c.Err, ErrExhausted):
		return WaitTimedOut
	case errors.Is(c.Err, ErrEnded):
		return WaitCancelled
	}
	return WaitReconfigured
}

// WaitEndWhy says for people why the wait of a Dropped request ended: the reason of the
// operator, or else the error. Err must not be nil.
func (c *Change) WaitEndWhy() string {
	if removed, ok := errors.AsType[*RemovedError](c.Err); ok {
		return removed.Reason
	}
	return c.Err.Error()
}

// register counts r among the requests that wait.
func (g *ledger) register(r *request) {
	g.arrivals = max(g.arrivals, r.arrival)
	r.timer.on = r
	g.requests.add(r)
	g.waiting++
	g.use(r.Owner, usage{waiting: 1, bytes: bytesOfWaiter + r.texts()})
	g.countWanted(r)
	r.ownerPos = len(g.waitersOf[r.Owner])
	g.waitersOf[r.Owner] = append(g.waitersOf[r.Owner], r)
}

// deregister is the counterpart of register.
func (g *ledger) deregister(r *request) {
	r.active = false
	g.timers.remove(&r.timer)
	g.requests.remove(r)
	g.waiting--
	g.use(r.Owner, usage{wanted: -r.wants, waiting: -1, bytes: -bytesOfWaiter - r.texts()})
	all := g.waitersOf[r.Owner]
	last := len(all) - 1
	all[r.ownerPos], all[last].ownerPos = all[last], r.ownerPos
	all[last] = nil // let go of it
	if g.waitersOf[r.Owner] = all[:last]; last == 0 {
		delete(g.waitersOf, r.Owner)
	}
}

// addToQueue puts r into the queue of each of its pools, and into that of its key.
func (g *ledger) addToQueue(r *request) {
	r.rank, r.standing = g.bestRank(r)
	r.shut = g.isShut(r)
	for seat := range r.allSeats {
		seat.rank, seat.standing = r.rank, r.standing
		seat.pool.list(seat)
	}
	if r.several() {
		g.several++
	}
	if r.key = r.pool.waitedFor(r); r.key != nil {
		r.key.queue.insert(r)
	}
}

// takeOffQueue is the counterpart of addToQueue.
func (g *ledger) takeOffQueue(r *request) {
	p := r.pool
	g.exit(r)
	for seat := range r.allSeats {
		seat.pool.unlist(seat)
	}
	if r.several() {
		g.several--
	}
	if r.key != nil {
		r.key.queue.remove(r)
		p.forgetKey(r.key)
		r.key = nil
	}
}

// activate makes r active: requests behind it overtake it only while it does not fit.
func (g *ledger) activate(r *request) {
	lead := r.lead()
	if !r.active {
		r.active = true
		lead.activeCount++
	}
	if lead.queued() {
		g.enter(lead)
	}
	g.touchAll(r)
}

// deactivate is the counterpart of activate.
func (g *ledger) deactivate(r *request) {
	if !r.active {
		return
	}
	r.active = false
	lead := r.lead()
	if lead.activeCount--; lead.activeCount == 0 && lead.queued() {
		g.exit(lead)
	}
	g.touchAll(r) // r may have been in the way
}

// noteWaiter notes a change of r.
func (g *ledger) noteWaiter(kind Kind, r *request) {
	r.stored = formatPassed(r.passed)
	w := r.waiter()
	g.note(kind).Waiter = &w
}
