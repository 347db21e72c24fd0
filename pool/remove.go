package pool

import (
	"errors"
	"time"
)

// Why a [Set.Remove] or a [Set.Move] changes nothing.
var (
	ErrUnknownRequest = errors.New("there is no such request")
	ErrNotQueued      = errors.New("the request does not wait: it was granted")
)

// Remove takes a waiter off the queue, as an act of an operator. Its connections get a
// [RemovedError], and so do later requests with its id, for [EndedKept].
//
// It returns the request. It fails with [ErrUnknownRequest], with [ErrNotQueued], or, if the
// request has ended already, with the error that [Set.Acquire] would return.
func (s *Set) Remove(now time.Duration, id string, act Act) (Request, error) {
	s.Advance(now)
	r, err := s.waiterOf(id)
	if err != nil {
		return Request{}, err
	}
	act = act.orNone()
	defer s.begin(act)()
	s.drop(r, &RemovedError{act.Reason})
	if !r.Anonymous {
		s.remember(Ended{ID: id, Removed: act.Reason})
	}
	s.serve()
	return r.Request, nil
}

// waiterOf returns the request with that id, which waits.
func (g *ledger) waiterOf(id string) (*request, error) {
	r := g.requests[id]
	switch {
	case r == nil && g.ended.has(id):
		return nil, g.ended.why(id)
	case r == nil:
		return nil, ErrUnknownRequest
	case !r.queued():
		return nil, ErrNotQueued
	}
	return r, nil
}
