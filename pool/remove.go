package pool

import (
	"errors"
	"time"
)

// Why a Remove removes nothing.
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
	r := s.requests[id]
	switch {
	case r == nil && s.ended.has(id):
		return Request{}, s.ended.why(id)
	case r == nil:
		return Request{}, ErrUnknownRequest
	case !r.queued():
		return Request{}, ErrNotQueued
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
