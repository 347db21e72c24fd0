package pool

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// Reservation is a name that a person has taken out of its pool. It is no lease: nobody renews it,
// and a restart changes nothing of it. A holder that has the name still keeps it until its lease
// ends.
type Reservation struct {
	Name   string
	Type   string // of the pool that it was taken out of
	Owner  string // who took it
	Reason string
	Since  time.Duration // on the lease clock
	At     time.Time     // the same, by the wall clock: see [Set.SetWall]
	Until  time.Duration // on the lease clock: when it ends by itself; zero: never
}

// Reserved is a reservation, and whether it has the name already. Its Type is that of the pool that has
// the name now, if one has.
type Reserved struct {
	Reservation
	Holder string // the owner of the lease that has the name still; empty: none has
	NoPool bool   // no pool has the name now
}

// reservation is a Reservation with its place.
type reservation struct {
	Reservation
	slot  *slot
	timer timer
}

func compareReserved(a, b Reservation) int {
	return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Name, b.Name))
}

// value returns the reservation of sl, which has one.
func (sl *slot) value() Reserved {
	r := Reserved{Reservation: sl.reserved.Reservation, NoPool: sl.pool == nil}
	if sl.pool != nil {
		r.Type = sl.pool.Type
	}
	if sl.lease != nil {
		r.Holder = sl.lease.Owner
	}
	return r
}

// Why a Reserve reserves nothing, beside [ErrUnknownName].
var (
	ErrMadeUp = errors.New("the pool has units, and makes up its names: only a name of a list can be reserved")
	// ErrReserved is the error of a name that another owner has reserved.
	ErrReserved = errors.New("another has reserved this name")
)

// Reserve takes a name out of its pool for a person, as an act of an operator: at once if the name
// is free, or else ahead of all waiters when its lease and its lock delay are over. Until it is
// given back, by [Set.Release] or [Set.GiveBack], or after a duration from now on (zero: no end by
// itself), nobody is granted the name. It stays reserved if it is removed
// from its pool and put back.
//
// The owner may reserve the name again, which changes the reason and the end. It fails with
// [ErrUnknownName] if no pool has the name, with [ErrMadeUp], or with [ErrReserved] and the
// reservation of the other.
func (s *Set) Reserve(now time.Duration, name, owner string, duration time.Duration, act Act) (Reserved, error) {
	s.Advance(now)
	sl := s.slots[name]
	switch {
	case (sl == nil || sl.pool == nil) && s.wasMadeUp(name):
		return Reserved{}, ErrMadeUp
	case sl == nil || sl.pool == nil:
		return Reserved{}, ErrUnknownName
	case sl.reserved != nil && !ownersAgree(sl.reserved.Owner, owner):
		return sl.value(), ErrReserved
	}
	act = act.orNone()
	defer s.begin(act)()
	r := Reservation{Name: name, Owner: owner, Reason: act.Reason, Since: s.now, At: s.wall}
	if sl.reserved != nil {
		r.Since, r.At = sl.reserved.Since, sl.reserved.At
	}
	if duration > 0 {
		r.Until = later(s.now, duration)
	}
	s.setReserved(sl, r)
	s.offerName(sl)
	s.reopen(sl.pool)
	s.touch(sl.pool)
	s.noteReserved(NameReserved, sl)
	s.serve()
	return sl.value(), nil
}

// GiveBack ends the reservation of name, whoever has it, as an act of an operator, and returns it.
// It fails with [ErrNotHeld] if the name is not reserved.
func (s *Set) GiveBack(now time.Duration, name string, act Act) (Reserved, error) {
	s.Advance(now)
	sl := s.slots[name]
	if sl == nil || sl.reserved == nil {
		return Reserved{}, ErrNotHeld
	}
	defer s.begin(act.orNone())()
	was := sl.value()
	s.giveBack(sl)
	s.serve()
	return was, nil
}

// Reserved returns the reservation of name; false if it is not reserved.
func (s *Set) Reserved(now time.Duration, name string) (Reserved, bool) {
	s.Advance(now)
	sl := s.slots[name]
	if sl == nil || sl.reserved == nil {
		return Reserved{}, false
	}
	return sl.value(), true
}

// isMeant reports whether ref may mean the reservation r: a reservation has no generation, and only
// its owner releases it by its name, so that what a former holder sends late does not end it.
func (r *reservation) isMeant(ref Ref) bool {
	return r != nil && ref.Generation == 0 && ref.Owner != ""
}

// releaseReserved is [Set.Release] of a name that is reserved, and not held by the owner of ref.
func (s *Set) releaseReserved(sl *slot, ref Ref, delay time.Duration) Reason {
	r := sl.reserved
	switch {
	case !ownersAgree(r.Owner, ref.Owner) && sl.lease != nil:
		return sl.lost(ref)
	case !ownersAgree(r.Owner, ref.Owner):
		return Taken
	case !ref.KnownAt.IsZero() && r.At.After(ref.KnownAt.Add(KnownTolerance)):
		return Later
	case delay > 0:
		r.Until = later(s.now, delay)
		s.setReserved(sl, r.Reservation)
		s.noteReserved(NameReserved, sl)
		return ""
	}
	s.giveBack(sl)
	s.serve()
	return ""
}

// setReserved makes r the reservation of sl. A reserved name is among the reserved names of its pool, and
// not in the pool's stock; [ledger.giveBack] is the reverse.
func (g *ledger) setReserved(sl *slot, r Reservation) {
	p := sl.pool
	if p != nil {
		r.Type = p.Type
	}
	if p != nil && sl.free() {
		p.unstock(sl)
	}
	if sl.reserved == nil {
		sl.reserved = &reservation{slot: sl}
		sl.reserved.timer.on = sl.reserved
		if p != nil {
			p.reserved = append(p.reserved, sl)
		}
	}
	sl.reserved.Reservation = r
	if r.Until > 0 {
		g.schedule(&sl.reserved.timer, r.Until)
	} else {
		g.timers.remove(&sl.reserved.timer)
	}
}

// giveBack ends the reservation of sl.
func (g *ledger) giveBack(sl *slot) {
	g.noteReserved(NameGivenBack, sl)
	g.timers.remove(&sl.reserved.timer)
	sl.reserved = nil
	if p := sl.pool; p != nil {
		i := slices.Index(p.reserved, sl)
		p.reserved = slices.Delete(p.reserved, i, i+1)
		g.reopen(p)
		g.touch(p)
	}
	if sl.free() {
		g.free(sl)
	}
}

func (g *ledger) noteReserved(kind Kind, sl *slot) {
	value := sl.value()
	g.note(kind).Reserved = &value
}

// noteOutOfPools notes those of reserved that no pool has: nobody sees them until one has them again.
func (g *ledger) noteOutOfPools(reserved []*slot) {
	for _, sl := range reserved {
		if sl.pool == nil {
			g.noteReserved(NameReserved, sl)
		}
	}
}

// findReserved lists the names of p that are reserved, after a change of its names.
func (p *pool) findReserved(g *ledger) {
	for _, name := range p.Names {
		if sl := g.slots[name]; sl.reserved != nil {
			p.reserved = append(p.reserved, sl)
		}
	}
	slices.SortFunc(p.reserved, func(a, b *slot) int {
		return compareReserved(a.reserved.Reservation, b.reserved.Reservation)
	})
}

// reservations returns the reservations of p, the oldest first.
func (p *pool) reservations() []Reserved {
	var all []Reserved
	for _, sl := range p.reserved {
		all = append(all, sl.value())
	}
	return all
}

// setAside returns how many names of p are reserved and have neither a lease nor a lock delay.
func (p *pool) setAside() (n int) {
	for _, sl := range p.reserved {
		if sl.lease == nil && sl.lock == nil {
			n++
		}
	}
	return n
}

// tooFewLeft reports whether p has fewer names beside the reserved ones than r wants. As a
// reservation may last, r then holds nobody up.
func (p *pool) tooFewLeft(r *request) bool {
	return len(p.reserved) > 0 && r.units > p.Capacity()-len(p.reserved)
}

// lacksForGood reports whether reservations that do not end by themselves leave fewer names than r
// wants.
func (p *pool) lacksForGood(r *request) bool {
	endless := 0
	for _, sl := range p.reserved {
		if sl.reserved.Until == 0 {
			endless++
		}
	}
	return endless > 0 && r.units > p.Capacity()-endless
}
