package pool

import (
	"fmt"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Acquire returns the leases of a request, or none if the request is queued or has joined
// another (see [Coalesce]). A request that waits has then one more connection attached;
// [Set.Detach] is the counterpart. A grant, made here or later, appears as [Granted] among the
// changes, with the same leases. The caller must not change them.
//
// A repeated request that was granted gets those of its leases that have not ended. If they are
// not confirmed yet, they get another [ProvisionalTTL], since the client evidently lives.
func (s *Set) Acquire(now time.Duration, q Request) ([]Lease, error) {
	s.Advance(now)
	q = q.normal()
	if r := s.requests.get(q.ID); r != nil {
		return s.acquireAgain(r, q)
	}
	if e := s.ended.get(q.ID); e != nil {
		return nil, e.why()
	}
	r, err := s.newRequest(q)
	if err != nil {
		return nil, err
	}
	other := r.pool.mergedInto(r)
	if q.Try {
		other = nil // it does not wait for another
	}
	if err := s.checkLeases(r, other.countedLeases()); err != nil {
		return nil, err
	}
	if other == nil && s.atOnce(r) {
		for seat := range r.allSeats {
			p := seat.pool
			if !p.hasWaiters() {
				p.nextSince = s.now
			}
			if p.hasWaiters() || p.several > 0 { // it goes ahead of them, and the pace delays them
				s.touch(p)
			}
		}
		leases := s.grant(r, false, s.overtake(r, r.units))
		s.serve()
		return leases, nil
	}
	if q.Try {
		return nil, &ExhaustedError{s.prospect(r)}
	}
	return s.queueOrJoin(r, other)
}

// queueOrJoin makes r, a new request, wait. It returns the leases if r gets them at once, in the
// turn of other.
func (s *Set) queueOrJoin(r, other *request) ([]Lease, error) {
	if err := s.wait(r, other); err != nil {
		return nil, err
	}
	s.serve() // may grant r the turn of a leader that is away
	if r.queued() {
		return nil, nil
	}
	return r.values(), nil
}

// wait makes r, a new request, wait: in the queue, or with other, which it joins or supersedes;
// nil: no other. It is refused if the queue is full, or if its
// caller has its [Share].
func (s *Set) wait(r, other *request) error {
	supersedes := other != nil && r.Coalesce == Latest
	for seat := range r.allSeats {
		p := seat.pool
		if n := len(p.queue) + p.following; n >= p.MaxWaiters && !supersedes {
			return seat.inPool(fmt.Errorf("%w: %d do", ErrQueueFull, n))
		}
	}
	if err := s.checkWaiters(r); err != nil && !supersedes {
		return err
	}
	r.attached = 1
	if supersedes {
		s.supersede(other, r)
	}
	if other == nil || supersedes {
		s.enqueue(r)
	} else {
		s.join(other, r)
	}
	return nil
}

// newRequest returns q as a request to its pool, and changes nothing. An error says why
// the pool can never grant it.
func (s *Set) newRequest(q Request) (*request, error) {
	q = q.normal()
	if err := s.knownTypes(q); err != nil {
		return nil, err
	}
	p := s.types[q.Type]
	units, err := p.unitsOf(q)
	if err != nil {
		return nil, err
	}
	if q.Anonymous && q.TTL <= 0 {
		q.TTL = p.V1TTL
	}
	q.TTL = p.ttl(q.TTL)
	r := &request{Request: q, units: units, pool: p, arrived: s.now, arrival: s.arrivals + 1, priority: q.Priority}
	if q.Name != "" {
		r.slot = s.slots[q.Name]
	}
	r.rank, r.standing = s.bestRank(r)
	for _, a := range q.Others() {
		seat, err := r.addSeat(s.types[a.Type], a, 0)
		if err != nil {
			return nil, err
		}
		seat.rank, seat.standing = r.rank, r.standing
		r.TTL = seat.pool.ttl(r.TTL)
	}
	for seat := range r.allSeats {
		if err := seat.pool.neverServes(seat); err != nil {
			return nil, seat.inPool(err)
		}
	}
	return r, nil
}

// knownTypes returns why q is refused, if it asks for types without a pool, or for one twice.
func (s *Set) knownTypes(q Request) error {
	isKnown := func(typ string) bool { p := s.types[typ]; return p != nil && !p.retired }
	if q.Also == "" {
		if !isKnown(q.Type) {
			return ErrUnknownType
		}
		return nil
	}
	if unknown := slices.DeleteFunc(q.Types(), isKnown); len(unknown) > 0 {
		return &UnknownTypesError{unknown}
	}
	return leaseapi.CheckAlso(q.Type, q.Others())
}

// inPool returns err with the type of the pool that it is about, if r has several.
func (r *request) inPool(err error) error {
	if r.several() {
		return fmt.Errorf("%q: %w", r.Type, err)
	}
	return err
}

// atOnce reports whether r, which has just come, can be granted.
func (s *Set) atOnce(r *request) bool {
	for seat := range r.allSeats {
		if p := seat.pool; !p.fits(seat) || !s.open(p, seat) || s.due(p, seat) > s.now || !p.isNext(seat) {
			return false
		}
	}
	return true
}

// acquireAgain is Acquire for a request that is known: q has its id.
func (s *Set) acquireAgain(r *request, q Request) ([]Lease, error) {
	if !r.Request.same(q) {
		return nil, ErrConflict
	}
	if r.queued() {
		r.attached++
		s.clientReturned(r)
		s.grantTouched()
	}
	defer s.serve()
	if !r.queued() {
		for _, l := range r.leases {
			if l.Provisional && l.Broken == "" {
				s.renew(l, ProvisionalTTL, false)
			}
		}
		return r.values(), nil
	}
	if q.Try {
		err := &ExhaustedError{s.standing(r)}
		s.drop(r, err)
		return nil, err
	}
	return nil, nil
}

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
	if s.requests.get(q.ID) != nil || s.ended.has(q.ID) {
		leases, err = s.Acquire(now, q)
		return leases, nil, err
	}
	replaced, stale, err := s.replacedBy(q.Owner, replaces)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.newRequest(q)
	if err == nil {
		other := r.pool.mergedInto(r)
		if err = s.checkLeases(r, len(replaced)+other.countedLeases()); err == nil {
			err = s.wait(r, other)
		}
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
