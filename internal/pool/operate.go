package pool

import (
	"cmp"
	"errors"
	"time"
)

// Act says who did something as an operator, and why. Clients that lose by it read the reason;
// the log and the status page also show who.
type Act struct {
	By     string // empty: nobody knows
	Reason string
}

// orNone returns a, with a text for people if it has no reason.
func (a Act) orNone() Act {
	a.Reason = cmp.Or(a.Reason, "no reason given")
	return a
}

// begin makes act the cause of all changes until the function that it returns is called.
func (g *ledger) begin(act Act) (end func()) {
	g.act = act
	return func() { g.act = Act{} }
}

// Pause is a pool that an operator has stopped.
type Pause struct {
	Type   string
	Reason string
	Since  time.Duration // on the lease clock
}

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
	s.reopen(p)
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
		s.reopen(p)
	}
	s.serve()
	return pause, nil
}

// pauseOf returns the pause of p; false if p is not paused.
func (g *ledger) pauseOf(p *pool) (Pause, bool) {
	pause, paused := g.pauses[p.Type]
	return pause, paused
}

// paused reports whether an operator has stopped p.
func (g *ledger) paused(p *pool) bool {
	_, paused := g.pauseOf(p)
	return paused
}

// open reports whether no pause keeps p from granting r.
func (g *ledger) open(p *pool, r *request) bool { return r.Overcommit || !g.paused(p) }

// Why a Break breaks nothing.
var (
	ErrUnknownName = errors.New("there never was such a name")
	ErrNotHeld     = errors.New("nobody holds this name")
)

// Break takes the lease of name away from its holder, as an act of an operator. From now on
// renewals fail with the reason, and nothing prolongs the lease, not even a restart. It ends
// when its holder releases it or its TTL is over, so the holder has time to stop its work. A release
// that is pending still ends it, unless that is later than a TTL from now. With immediately, it ends now.
//
// It returns the lease as it is now, or as it was when it ended. It fails with [ErrUnknownName]
// or [ErrNotHeld]. Breaking a lease again replaces the reason.
func (s *Set) Break(now time.Duration, name string, act Act, immediately bool) (Lease, error) {
	s.Advance(now)
	sl := s.slots[name]
	switch {
	case sl == nil && !s.wasMadeUp(name):
		return Lease{}, ErrUnknownName
	case sl == nil || sl.lease == nil:
		return Lease{}, ErrNotHeld
	}
	l := sl.lease
	act = act.orNone()
	defer s.begin(act)()
	l.Broken = act.Reason
	if immediately {
		s.end(l, brokenFor(l.Broken))
		s.serve()
		return l.Lease, nil
	}
	if end := later(s.now, l.TTL); l.ReleaseAt > end {
		l.ReleaseAt, l.Expires = 0, end
		s.schedule(&l.timer, l.Ends())
	}
	l.foresee()
	s.note(Broken).Lease = l.Lease
	return l.Lease, nil
}

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
	if err := (&RemovedError{act.Reason}); r.Anonymous {
		s.drop(r, err)
	} else {
		s.dropForGood(r, err, Ended{Removed: act.Reason})
	}
	s.serve()
	return r.Request, nil
}

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

// waiterOf returns the request with that id, which waits.
func (g *ledger) waiterOf(id string) (*request, error) {
	r, e := g.requests.get(id), g.ended.get(id)
	switch {
	case r == nil && e != nil:
		return nil, e.why()
	case r == nil:
		return nil, ErrUnknownRequest
	case !r.queued():
		return nil, ErrNotQueued
	}
	return r, nil
}
