package pool

import "time"

// Pause makes the pool of a type grant nothing until [Set.Resume], except to requests with
// Overcommit: other requests wait, and are told the reason. Leases stay held, and can be
// renewed and released. A pause outlives restarts, and the pool itself if its type is removed
// from the configuration and put back. Pausing again changes the reason.
//
// It returns [ErrUnknownType] if there is no such pool.
func (s *Set) Pause(now time.Duration, typ string, act Act) (Pause, error) {
	s.Advance(now)
	p := s.types[typ]
	if p == nil || p.retired {
		return Pause{}, ErrUnknownType
	}
	before, paused := s.pauses[typ]
	act = act.orNone()
	defer s.begin(act)()
	pause := Pause{Type: typ, Reason: act.Reason, Since: s.now}
	if paused {
		pause.Since = before.Since
	}
	s.pauses[typ] = pause
	s.note(Paused).Pause = &pause
	s.touch(p) // serve stops its timer
	s.serve()
	return pause, nil
}

// Resume ends a pause: free units go to the waiters, in their order and at the pool's pace. It
// returns the pause that it ended, which is zero if the pool was not paused, or
// [ErrUnknownType] if there is neither a pool nor a pause.
func (s *Set) Resume(now time.Duration, typ string, act Act) (Pause, error) {
	s.Advance(now)
	pause, paused := s.pauses[typ]
	p := s.types[typ]
	switch {
	case !paused && (p == nil || p.retired):
		return Pause{}, ErrUnknownType
	case !paused:
		return Pause{}, nil
	}
	defer s.begin(act)()
	delete(s.pauses, typ)
	s.note(Resumed).Pause = &pause
	if p != nil {
		s.touch(p)
	}
	s.serve()
	return pause, nil
}
