package pool

import "slices"

// Coalescing, as the model knows it.

// note is a change of a waiter that the model expects.
type note struct {
	kind Kind
	r    *modelRequest
}

// lead is the request that waits or runs for r.
func (r *modelRequest) lead() *modelRequest {
	if r.leader != nil {
		return r.leader
	}
	return r
}

// group is r and its followers.
func (r *modelRequest) group() []*modelRequest {
	return append([]*modelRequest{r}, r.followers...)
}

// holdsPlace says whether anybody of the group of r is active, or missed.
func (r *modelRequest) holdsPlace() bool {
	return r.active || slices.ContainsFunc(r.followers, func(f *modelRequest) bool { return f.active })
}

// turn is the request that is granted leases when it is the turn of r: the first of r and its
// followers that is active and not missed; nil if none is.
func (r *modelRequest) turn() *modelRequest {
	if r == nil {
		return nil
	}
	for _, m := range r.group() {
		if m.active && !m.missed {
			return m
		}
	}
	return nil
}

// partner is the request that r, a new request, joins or supersedes.
func (p *modelPool) partner(m *model, r *modelRequest) *modelRequest {
	if r.Coalesce == 0 || r.Anonymous || r.Key == "" {
		return nil
	}
	var last *modelRequest
	for _, other := range p.queue {
		if other.pool == p && other.Key == r.Key && (other.Overcommit || !r.Overcommit) {
			last = other
		}
	}
	if last == nil && r.Coalesce == Once {
		for _, l := range m.leases {
			if l.Type == p.Type && l.heldKey() == r.Key && l.request != nil && !l.request.lost {
				last = l.request
			}
		}
		if last != nil && slices.ContainsFunc(last.leases, func(l *modelLease) bool { return l.Broken != "" || l.ReleaseAt != 0 }) {
			return nil
		}
	}
	token := func(r *modelRequest) string { t, _ := SplitOwner(r.Owner); return t }
	switch {
	case last == nil, last.Anonymous, token(last) != token(r), last.Overcommit != r.Overcommit:
		return nil
	case last.Coalesce == Latest && r.Coalesce == Latest:
		return last
	case last.Coalesce == Latest || r.Coalesce == Latest || last.Coalesce == 0 || last.Variant != r.Variant:
		return nil
	}
	return last
}

// follow makes r, which came after the other followers of lead, a follower of lead.
func (m *model) follow(lead, r *modelRequest) {
	r.leader = lead
	lead.followers = append(lead.followers, r)
	r.pool.following++
	r.pool.dirty = true
	r.pool.sort()
}

// unfollow takes r from its leader.
func (m *model) unfollow(r *modelRequest) {
	r.leader.followers = slices.DeleteFunc(r.leader.followers, func(f *modelRequest) bool { return f == r })
	r.leader = nil
	r.pool.following--
	r.pool.dirty = true
	r.pool.sort()
}

// takeTurn makes f the leader of its group.
func (m *model) takeTurn(f *modelRequest) {
	lead := f.leader
	m.unfollow(f)
	i := slices.Index(lead.pool.queue, lead)
	lead.pool.queue = slices.Delete(lead.pool.queue, i, i+1)
	rest := lead.followers
	lead.pool.following -= len(rest)
	lead.followers = nil
	for _, r := range append([]*modelRequest{lead}, rest...) {
		m.follow(f, r)
	}
	f.adopted = true
	m.count("turns of an absent leader")
}

// wantTold expects that whom the followers of r follow, which is granted, was noted before, unless it was
// when they came.
func (m *model) wantTold(r *modelRequest) {
	var want []*modelRequest
	if r.adopted {
		want = r.followers
	}
	if len(m.told) != len(want) {
		m.fail("%s was granted, and %d followers were noted, want %d", r.ID, len(m.told), len(want))
	}
	for i, w := range m.told {
		if *w != want[i].waiter() {
			m.fail("%s was granted, and noted was %+v, want %+v", r.ID, w, want[i].waiter())
		}
	}
	m.told, r.adopted = nil, false
}

// conclude decides about the followers of r, whose leases have ended.
func (m *model) conclude(r *modelRequest) {
	if r.result == 0 || r.lost {
		m.promote(r)
		return
	}
	for _, f := range r.followers {
		m.count("coalesced")
		m.leaving[f.ID] = &CoalescedError{r.result}
		m.results[f.ID] = r.result
	}
}

// promote makes the oldest follower of r, which is gone, a waiter that the others follow. Those that
// have lost their places, too, leave before.
func (m *model) promote(r *modelRequest) {
	var gone, left []*modelRequest
	for _, f := range r.followers {
		if f.attached == 0 && f.keptUntil > 0 && max(f.activeUntil, f.keptUntil) <= m.now {
			gone = append(gone, f)
		} else {
			left = append(left, f)
		}
	}
	if len(gone) > 0 {
		m.count("gone with its leader")
	}
	r.followers = gone
	if len(left) == 0 {
		return
	}
	p := r.pool
	first, rest := left[0], left[1:]
	p.following -= len(left)
	first.leader = nil
	p.queue = append(p.queue, first)
	p.sort()
	m.expected = append(m.expected, note{Queued, first})
	for _, f := range rest {
		m.follow(first, f)
	}
	first.adopted = len(rest) > 0
	p.dirty = true
	m.count("promoted")
	m.dismiss(first)
}

// dismiss expects that those of r, which is in the queue, and its followers leave whom the pool
// can never serve.
func (m *model) dismiss(r *modelRequest) {
	p := r.pool
	if r.several() {
		if slices.ContainsFunc(r.wants(), func(w want) bool { return w.pool.gone }) {
			m.leaving[r.ID] = ErrUnknownType
		} else if r.lacksCost() {
			m.leaving[r.ID] = ErrNoCost
		}
		return
	}
	for _, member := range r.group() {
		switch {
		case p.gone:
			m.leaving[member.ID] = ErrUnknownType
		case member.lacksCost():
			m.leaving[member.ID] = ErrNoCost
		case member.units > p.capacity():
			m.leaving[member.ID] = ErrTooMany
		case member.Name != "" && p.Units > 0:
			m.leaving[member.ID] = ErrOneName
		case member.Name != "" && m.names[member.Name].pool != p:
			m.leaving[member.ID] = ErrNotInPool
		case member.Overcommit && p.Overcommit == 0:
			m.leaving[member.ID] = ErrNoOvercommit
		}
	}
}

// applyNote checks a change that says that a waiter is in the queue or follows another: the
// model may have expected it.
func (m *model) applyNote(c Change) {
	switch {
	case m.asking != nil && m.asking.ID == c.Waiter.ID:
		m.applyArrival(c)
	case len(m.expected) > 0 && m.expected[0].kind == c.Kind && m.expected[0].r.ID == c.Waiter.ID:
		want := m.expected[0].r.waiter()
		if m.counting[want.ID] { // a restart notes that later
			want.Units, want.AlsoUnits = c.Waiter.Units, c.Waiter.AlsoUnits
		}
		if *c.Waiter != want.asNoted(c) {
			m.fail("waits %+v, want %+v", *c.Waiter, want)
		}
		m.expected = m.expected[1:]
	case c.Kind == Joined:
		m.told = append(m.told, c.Waiter) // before a grant: see wantTold
	default:
		m.fail("%s was queued, and did not ask", c.Waiter.ID)
	}
}

// asNoted is w as c has it: a restart notes first c, and then that the waiter is missed.
func (w Waiter) asNoted(c Change) Waiter {
	if c.Waiter.KeptUntil == 0 {
		w.HoldsUntil, w.KeptUntil = 0, 0
	}
	return w
}

// applyArrival: a request that cannot be granted waits, or joins another.
func (m *model) applyArrival(c Change) {
	r := m.asking
	m.asking = nil
	r.arrived, r.placed = m.now, m.now
	if (c.Kind == Joined) != (r.joins != nil) {
		m.fail("%s joins %+v, and is not noted so", r.ID, r.joins)
	}
	m.enter(r)
	r.store()
	if *c.Waiter != r.waiter() {
		m.fail("waits %+v, want %+v", *c.Waiter, r.waiter())
	}
}

// restorePlace gives a waiter its place after a restart.
func (m *model) restorePlace(r *modelRequest, w Waiter) {
	p := r.pool
	if r.Name != "" {
		m.name(r.Name)
	}
	lead := m.requests[w.Follows]
	if lead == nil || lead.queued || lead.pool != p || lead.Key != r.Key || lead.Variant != r.Variant {
		r.arrival = w.Arrival
		lead = p.partner(m, r)
	}
	m.arrivals = w.Arrival - 1
	if r.joins = lead; r.Coalesce == Latest {
		r.joins = nil
	}
	m.enter(r)
	switch now := r.waiter().Follows; {
	case now != "" && now != w.Follows:
		m.expected = append(m.expected, note{Joined, r})
	case now != w.Follows:
		m.expected = append(m.expected, note{Queued, r})
	}
}
