package pool

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// Release ends the lease that ref means, or the reservation of its owner if ref has no generation
// and the owner does not hold the name. With a delay it makes the lease end delay from now,
// even if somebody renews it or its holder dies. A later call may move that time either way,
// but cannot postpone the end of a broken lease. Releasing a free name does nothing. The Reason
// is empty if the lease has ended or will end; [Taken] if another has reserved the name; [Other] if somebody else has the name, which
// changes nothing; [Later] if the owner got it again since; [Unknown] if there never was such a name.
func (s *Set) Release(now time.Duration, ref Ref, delay time.Duration) Reason {
	s.Advance(now)
	sl := s.slots[ref.Name]
	switch {
	case ref.Hidden, sl == nil && !s.wasMadeUp(ref.Name):
		return Unknown
	case sl == nil:
		return ""
	case sl.lease != nil && ref.matches(&sl.lease.Lease):
	case sl.reserved.isMeant(ref):
		return s.releaseReserved(sl, ref, delay)
	case sl.lease == nil:
		return ""
	default:
		return sl.lost(ref)
	}
	l := sl.lease
	if delay <= 0 {
		s.end(l, Released)
		s.serve()
		return ""
	}
	at := later(s.now, delay)
	if l.Broken != "" {
		at = min(at, l.Ends())
	}
	l.ReleaseAt = at
	l.pool.outlook.invalidate()
	l.Provisional = false // a client that delays the release has received the grant
	s.schedule(&l.timer, l.Ends())
	s.note(Delayed).Lease = l.Lease
	return ""
}

// Finish is [Set.Release] without a delay, for a lease whose command ended by itself with
// result. When the last lease of its request has ended, the result goes to the requests that
// joined it; but not if one of its leases was broken or expired.
func (s *Set) Finish(now time.Duration, ref Ref, result Result) Reason {
	s.Advance(now)
	if sl := s.slots[ref.Name]; sl != nil && sl.lease != nil && ref.matches(&sl.lease.Lease) && sl.lease.request != nil {
		sl.lease.request.result = result
	}
	return s.Release(now, ref, 0)
}

// ReleaseAll takes every request off the queue whose owner is meant, the newest first, and then
// ends every lease of such an owner, in the order of their grants. So none of these requests
// gets a lease that is released here. The ids of requests that can be repeated are remembered,
// as by [Set.Cancel]. It returns the names that were held, and how many requests waited.
func (s *Set) ReleaseAll(now time.Duration, meant func(owner string) bool) (names []string, withdrawn int) {
	s.Advance(now)
	var waiting []*request
	for _, r := range s.requests {
		if r.queued() && meant(r.Owner) {
			waiting = append(waiting, r)
		}
	}
	// A follower goes before its leader, which arrived earlier: otherwise it would take the
	// leader's place.
	slices.SortFunc(waiting, func(a, b *request) int { return cmp.Compare(b.arrival, a.arrival) })
	for _, r := range waiting {
		s.drop(r, ErrEnded)
		if !r.Anonymous {
			s.remember(Ended{ID: r.ID})
		}
	}
	var held []*lease
	for _, sl := range s.slots {
		if sl.lease != nil && meant(sl.lease.Owner) {
			held = append(held, sl.lease)
		}
	}
	slices.SortFunc(held, compareGrants)
	for _, l := range held {
		names = append(names, l.Name)
		s.end(l, Released)
	}
	s.serve()
	return names, len(waiting)
}

// tombstones are the ended request ids, in the order in which they are
// forgotten, which is the order in which they ended.
type tombstones struct {
	ids       map[string]int // how many ended before this one, over all time
	order     []Ended
	forgotten int // how many were removed from order, over all time
	limit     int
}

func newTombstones() tombstones {
	return tombstones{ids: make(map[string]int), limit: MaxEnded}
}

// surplus returns how many must be forgotten before one more may be remembered.
func (t *tombstones) surplus() int { return max(0, len(t.order)+1-t.limit) }

// due returns how many must be forgotten at now.
func (t *tombstones) due(now time.Duration) (n int) {
	for n < len(t.order) && t.order[n].Until <= now {
		n++
	}
	return n
}

func (t *tombstones) has(id string) bool {
	_, ok := t.ids[id]
	return ok
}

// get returns the entry of an id, which must be there. It is valid until the next push.
func (t *tombstones) get(id string) *Ended { return &t.order[t.ids[id]-t.forgotten] }

// why returns the error of an acquire with an id that has ended.
func (t *tombstones) why(id string) error {
	e := t.get(id)
	if e.Removed != "" {
		return &RemovedError{e.Removed}
	}
	if e.Result != 0 {
		return &CoalescedError{e.Result}
	}
	if e.Unconfirmed {
		return ErrUnconfirmed
	}
	return ErrEnded
}

func (t *tombstones) push(e Ended) {
	t.ids[e.ID] = t.forgotten + len(t.order)
	t.order = append(t.order, e)
}

// first returns the entry that is forgotten next; false if there is none.
func (t *tombstones) first() (e Ended, ok bool) {
	if len(t.order) == 0 {
		return Ended{}, false
	}
	return t.order[0], true
}

// pop takes out the first entry; there must be one.
func (t *tombstones) pop() Ended {
	e := t.order[0]
	t.order[0] = Ended{} // let go of its id
	t.order = t.order[1:]
	t.forgotten++
	delete(t.ids, e.ID)
	return e
}

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
