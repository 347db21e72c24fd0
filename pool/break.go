package pool

import (
	"errors"
	"time"
)

// Why a Break breaks nothing.
var (
	ErrUnknownName = errors.New("there never was such a name")
	ErrNotHeld     = errors.New("nobody holds this name")
)

// Break takes the lease of name away from its holder, as an act of an operator. From now on
// renewals fail with the reason, and nothing prolongs the lease, not even a restart. It ends
// when its holder releases it, at a pending release, or when its TTL is over, so the holder has
// time to stop its work. With immediately, it ends now.
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
	l.pool.outlook.invalidate()
	if immediately {
		s.end(l, brokenFor(l.Broken))
		s.serve()
	} else {
		s.note(Broken).Lease = l.Lease
	}
	return l.Lease, nil
}
