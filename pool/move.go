package pool

import "time"

// Move gives a waiter another priority, as an act of an operator. It counts from now on as if the
// request had asked for it, and outlives restarts; a repeated request still asks for what it asked
// for first.
//
// It returns the waiter, and the priority that counted before. It fails as [Set.Remove] does.
func (s *Set) Move(now time.Duration, id string, priority int, act Act) (w Waiter, before int, err error) {
	s.Advance(now)
	r, err := s.waiterOf(id)
	if err != nil {
		return Waiter{}, 0, err
	}
	defer s.begin(act.orNone())()
	before, r.priority = r.priority, priority
	s.rerank(r.lead())
	s.noteWaiter(Moved, r)
	w = r.waiter()
	s.serve()
	return w, before, nil
}
