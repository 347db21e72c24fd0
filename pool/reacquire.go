package pool

import (
	"fmt"
	"slices"
	"time"
)

// Stale is a lease that a call meant and that had ended before, and why.
type Stale struct {
	Ref
	Reason Reason
}

// Reacquire is [Set.Acquire] for a request in the place of leases that its owner has: it takes the
// request into the queue, behind all others, and ends the leases that replaces means by name and
// generation. A request that is refused ends none of them: by the errors of Acquire but
// [ErrExhausted], or by [ErrNotOwn] if one of the leases is another owner's.
//
// Stale are the leases that had ended before; they keep nothing from being taken. A repeated
// request is the same request: it ends nothing, and nothing is stale.
func (s *Set) Reacquire(now time.Duration, q Request, replaces []Ref) (leases []Lease, stale []Stale, err error) {
	s.Advance(now)
	if s.requests[q.ID] != nil || s.ended.has(q.ID) {
		leases, err = s.Acquire(now, q)
		return leases, nil, err
	}
	replaced, stale, err := s.replacedBy(q.Owner, replaces)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.newRequest(q)
	if err == nil {
		err = s.wait(r, r.pool.mergedInto(r))
	}
	if err != nil {
		return nil, nil, err
	}
	for _, l := range replaced {
		s.end(l, Released)
	}
	s.serve()
	if !r.queued() {
		return r.values(), stale, nil
	}
	if q.Try {
		err = &ExhaustedError{s.standing(r)}
		s.drop(r, err)
		s.serve()
	}
	return nil, stale, err
}

// replacedBy returns the leases of owner that refs mean, and those that are not held.
func (g *ledger) replacedBy(owner string, refs []Ref) (held []*lease, stale []Stale, err error) {
	for _, ref := range refs {
		switch l, why := g.meant(ref); {
		case l == nil:
			stale = append(stale, Stale{ref, why})
		case !ownersAgree(l.Owner, owner):
			_, holder := SplitOwner(l.Owner)
			return nil, nil, fmt.Errorf("%w: %s is held by %q", ErrNotOwn, l.Name, holder)
		case !slices.Contains(held, l):
			held = append(held, l)
		}
	}
	return held, stale, nil
}
