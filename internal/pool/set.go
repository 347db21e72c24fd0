package pool

import "time"

// Set is the pools of one server; see the package comment for its guarantees.
// [New] makes one.
//
// Its methods that take now first call [Set.Advance] and then do their own part in the ledger;
// only [Set.Stalled] does its part before. The ledger never advances by itself.
type Set struct {
	ledger
}

// SetWall says what the wall clock shows: leases that are granted from now on were granted At that
// time. Nothing else depends on it, so it may be wrong, and may go back.
func (s *Set) SetWall(wall time.Time) { s.wall = wall }

// Advance does everything that is due at now: leases end, places are lost,
// ended ids are forgotten, and then free names are granted. Overdue things are
// done in the order in which they were due, but all grants are made at now: a
// grant in the past might be over before anybody knew of it.
func (s *Set) Advance(now time.Duration) {
	s.now = max(s.now, now)
	for {
		t, ok := s.timers.first()
		if !ok || t.due > s.now {
			break
		}
		s.timers.remove(t)
		switch on := t.on.(type) {
		case *lease:
			s.expire(on)
		case *lock:
			s.unlock(on)
		case *request:
			s.leave(on)
		case *reservation:
			s.giveBack(on.slot)
		case *pool:
			s.touch(on) // the pace no longer delays the next grant
		}
		// Otherwise this loop might never end, and its caller holds a lock.
		if s.timers.has(t) && t.due <= s.now {
			panic("pool: a timer that went off is due again at once")
		}
	}
	for t := s.ended.due(s.now); t != nil; t = s.ended.due(s.now) {
		s.forget(t)
	}
	s.serve()
}

// Next returns when Advance has something to do, unless another call comes before; false if
// never.
func (s *Set) Next() (time.Duration, bool) {
	t, timed := s.timers.first()
	e := s.ended.first
	switch {
	case timed && e != nil:
		return min(t.due, e.Until), true
	case timed:
		return t.due, true
	case e != nil:
		return e.Until, true
	}
	return 0, false
}

// Busy returns how many leases are held and how many requests wait, over all
// pools.
func (s *Set) Busy() (held, waiting int) { return s.held, s.waiting }

// Drain returns the changes since the last Drain, in order, and forgets them. The slice is
// valid until the next Drain, which uses its memory again.
func (s *Set) Drain() []Change {
	changes := s.changes
	s.changes = s.drained[:0]
	clear(s.drained) // let go of what they refer to
	if s.drained = changes; cap(changes) > roomKept {
		s.drained = nil
	}
	return changes
}

// roomKept is the largest capacity that Drain uses again: enough for the changes of nearly
// every call.
const roomKept = 16
