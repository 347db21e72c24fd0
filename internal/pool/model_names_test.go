package pool

import (
	"fmt"
	"slices"
	"time"
)

// Requests for a name, and reservations, as the model knows them, and what the simulation does with
// them.

// isFree says whether nobody has the name.
func (n *modelName) isFree() bool { return n.lease == nil && n.lock == nil && n.reserved == nil }

// reservation is what people are told of the reservation of n.
func (n *modelName) reservation() Reserved {
	r := Reserved{Reservation: *n.reserved, NoPool: n.pool == nil}
	if n.pool != nil {
		r.Type = n.pool.Type
	}
	if n.lease != nil {
		r.Holder = n.lease.Owner
	}
	return r
}

// claim is what two requests cannot have at once: a name, or a key; neither: nothing.
type claim struct{ name, key string }

func (r *modelRequest) claim() claim { return claim{r.Name, r.Key} }

// aside is how many names of p are reserved, and nothing else.
func (p *modelPool) aside() (n int) {
	for name := range p.out {
		if p.names[name].lease == nil && p.names[name].lock == nil {
			n++
		}
	}
	return n
}

// used is how many units of p are in use, for people.
func (p *modelPool) used() int { return max(p.taken(), p.taken()+p.aside()+p.limit-p.capacity()) }

// taken is how many of them count against the limit: those that are not only reserved.
func (p *modelPool) taken() int { return p.inUse + p.locked }

// tooFew says whether the names that are not reserved are too few for r.
func (p *modelPool) tooFew(r *modelRequest) bool {
	return len(p.out) > 0 && r.in(p)+len(p.out) > p.capacity()
}

// pick takes the free names that r gets: the one that it wants; or those that are free longest, but
// first those that no waiter wants.
func (p *modelPool) pick(r *modelRequest, count int, note func(string)) (names []string) {
	wanted := map[string]bool{}
	for _, other := range p.queue {
		if other.Name != "" {
			wanted[other.Name] = true
		}
	}
	if r.Name != "" {
		note("wanted by name")
		names = []string{r.Name}
	} else {
		for _, is := range []bool{false, true} {
			for _, name := range p.free {
				if len(names) < count && wanted[name] == is {
					names = append(names, name)
				}
			}
		}
		if wanted[names[count-1]] {
			note("taken although wanted")
		} else if !slices.Equal(names, p.free[:count]) {
			note("kept for another")
		}
	}
	p.free = slices.DeleteFunc(p.free, func(name string) bool { return slices.Contains(names, name) })
	return names
}

// whyNotFree is why a waiter that wants the name waits.
func (m *model) whyNotFree(name string) string {
	n := m.names[name]
	switch {
	case n.reserved != nil:
		return fmt.Sprintf("wants %s, reserved by %s: %s", name, n.reserved.Owner, n.reserved.Reason)
	case n.lock != nil:
		return lockedUntil(n.lock.Until)
	}
	_, owner := SplitOwner(n.lease.Owner)
	return "wants " + name + ", held by " + owner
}

// areReserved says whether told are the reservations of p.
func (m *model) areReserved(p *modelPool, told []Reserved) bool {
	for _, r := range told {
		if !p.out[r.Name] || m.names[r.Name].reservation() != r {
			return false
		}
	}
	return len(told) == len(p.out)
}

// reserve makes r the reservation of its name.
func (m *model) reserve(r Reservation) {
	n := m.names[r.Name]
	if n.isFree() && n.pool != nil {
		n.pool.free = slices.DeleteFunc(n.pool.free, func(name string) bool { return name == r.Name })
	}
	n.reserved = &r
	if n.pool != nil {
		r.Type = n.pool.Type
		n.pool.out[r.Name] = true
		n.pool.dirty = true
	}
	if r.Until > 0 {
		m.times.push(entry{at: r.Until, reserved: &r})
	}
}

// applyGivenBack: a reservation ends when its time is over, or because a call ends it.
func (m *model) applyGivenBack(r Reserved) {
	n := m.names[r.Name]
	if n == nil || n.reserved == nil || n.reservation() != r || !m.giving[r.Name] && (r.Until == 0 || r.Until > m.now) {
		m.fail("given back %+v, want %+v", r, n)
	}
	if m.count("given back"); !m.giving[r.Name] {
		m.count("given back by itself")
	}
	delete(m.giving, r.Name)
	n.reserved = nil
	if n.pool != nil {
		delete(n.pool.out, r.Name)
		n.pool.dirty = true
	}
	if n.isFree() {
		m.freeName(r.Name)
	}
}

// isOfReservation says whether a release by that ref is judged by the reservation of n.
func (m *model) isOfReservation(n *modelName, ref Ref) bool {
	return n != nil && n.reserved != nil && ref.Generation == 0 && ref.Owner != "" &&
		(n.lease == nil || !n.lease.isMeant(ref))
}

// releaseReserved expects what such a release does.
func (m *model) releaseReserved(n *modelName, ref Ref, delay time.Duration) Reason {
	switch r := *n.reserved; {
	case r.Owner != ref.Owner && n.lease != nil:
		return n.lease.why(ref)
	case r.Owner != ref.Owner:
		return Taken
	case !ref.KnownAt.IsZero() && r.At.Sub(ref.KnownAt) > 2*time.Second:
		return Later
	case delay > 0:
		r.Until = m.now + delay
		m.reserve(r)
	default:
		m.giving[r.Name] = true
		m.count("given back by its name")
	}
	return ""
}

// nameOne makes q ask for a name of p, at times for a wrong one, or for more than that.
func (m *sim) nameOne(p *modelPool, q *Request) {
	if q.Name = "nobody"; len(p.Names) > 0 && m.rand.IntN(20) > 0 {
		q.Name = p.Names[m.rand.IntN(len(p.Names))]
		if m.rand.IntN(3) > 0 {
			q.Name = p.Names[m.rand.IntN(min(2, len(p.Names)))] // one that many want
		}
	}
	if m.rand.IntN(20) > 0 {
		q.Count, q.Key, q.Coalesce, q.ReadsKey, q.Variant = 0, "", 0, false, ""
		q.HasItems, q.Items = false, 0
	}
}

// reserved are the names that are reserved.
func (m *model) reserved() (names []string) {
	for name, n := range m.names {
		if n.reserved != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// reserveSomething reserves a name, or gives one back, so that few are reserved at a time.
func (m *sim) reserveSomething() {
	names := m.reserved()
	owner := m.owners[m.rand.IntN(4)].name
	if len(names) > 0 && m.rand.IntN(6) < 1+len(names) {
		m.endReservation(names[m.rand.IntN(len(names))], owner)
		return
	}
	name := "nobody"
	switch n := m.rand.IntN(20); {
	case n == 0:
		m.giveBack(name)
		return
	case n < 3 && len(m.leases) > 0:
		name = m.leases[m.rand.IntN(len(m.leases))].Name // of any pool, or of none
	case n < 10 && len(m.waiters) > 0 && m.waiters[0].Name != "": // which may be about to be granted
		name = m.waiters[0].Name
	case n > 3:
		if c := m.configs[m.rand.IntN(len(m.configs))]; len(c.Names) > 0 {
			name = c.Names[m.rand.IntN(len(c.Names))]
		}
	}
	m.reserveName(name, owner, time.Duration(m.rand.IntN(3)*m.rand.IntN(200))*time.Second)
}

// endReservation tries to end a reservation, or to prolong it; owner is anybody.
func (m *sim) endReservation(name, owner string) {
	by := m.names[name].reserved.Owner
	switch m.rand.IntN(8) {
	case 0, 1:
		m.giveBack(name)
	case 2:
		m.reserveName(name, owner, 0)
	case 3:
		m.release(Ref{Name: name, Owner: owner}, 0)
	case 4:
		m.release(Ref{Name: name, Owner: by}, time.Duration(1+m.rand.IntN(60))*time.Second)
	case 5:
		known := m.names[name].reserved.At.Add(time.Duration(m.rand.IntN(20_000)-10_000) * time.Millisecond)
		m.releaseTwice(Ref{Name: name, Owner: by, KnownAt: known}, 0)
	case 6:
		m.release(Ref{Name: name}, 0) // as by a client of version 1
	default:
		m.releaseTwice(Ref{Name: name, Owner: by}, 0)
	}
}

func (m *sim) reserveName(name, owner string, d time.Duration) {
	why := fmt.Sprint("reason ", m.rand.IntN(3))
	m.logf("reserve %s for %s: %v, %q", name, owner, d, why)
	n := m.names[name]
	var want error
	var reserved Reserved
	switch {
	case (n == nil || n.pool == nil) && m.isMadeUp(name):
		want = ErrMadeUp
	case n == nil || n.pool == nil:
		want = ErrUnknownName
	case n.reserved != nil && n.reserved.Owner != owner:
		want, reserved = ErrReserved, n.reservation()
	default:
		r := Reservation{Name: name, Owner: owner, Reason: why, Since: m.now, At: m.wall}
		if n.reserved != nil {
			r.Since, r.At = n.reserved.Since, n.reserved.At
		}
		if d > 0 {
			r.Until = m.now + d
		}
		if m.count("reserved"); n.lease != nil {
			m.count("reserved while held")
		}
		m.reserve(r)
		reserved = n.reservation()
	}
	m.doAtWall(func(now time.Duration) {
		got, err := m.set.Reserve(now, name, owner, d, Act{Reason: why})
		if m.mustBe(err, want); got != reserved {
			m.failf("reserved %+v, want %+v", got, reserved)
		}
	})
}

func (m *sim) giveBack(name string) {
	m.logf("give back %s", name)
	want := ErrNotHeld
	var reserved Reserved
	if n := m.names[name]; n != nil && n.reserved != nil {
		want, reserved = nil, n.reservation()
		m.giving[name] = true
	}
	m.do(func(now time.Duration) {
		got, err := m.set.GiveBack(now, name, Act{})
		if m.mustBe(err, want); got != reserved {
			m.failf("gave back %+v, want %+v", got, reserved)
		}
	})
}

// giveAllBack ends all reservations.
func (m *sim) giveAllBack() {
	for _, name := range m.reserved() {
		m.giveBack(name)
		m.check(nil)
	}
}

// isMadeUp says whether a counted pool may have made up the name.
func (m *model) isMadeUp(name string) bool {
	typ := MadeUpFor(name)
	return typ != "" && m.named[typ] > 0
}
