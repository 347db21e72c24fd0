package pool

import (
	"errors"
	"slices"
)

// apply applies what changed.
func (m *model) apply(changes []Change) {
	for _, c := range changes {
		if c.Waiter != nil && c.Kind != Overtaken {
			if r := m.requests[c.Waiter.ID]; r != nil {
				r.store()
			}
		}
		switch c.Kind {
		case Granted:
			m.applyGrant(c)
		case Renewed, Extended, Delayed, Broken:
			if n := m.names[c.Lease.Name]; n == nil || n.lease == nil || n.lease.Lease != c.Lease {
				m.fail("changed to %+v, want %v", c.Lease, n)
			}
		case Resized:
			if l := m.sizing; l == nil || l.Lease != c.Lease || c.Before != m.sizedFrom {
				m.fail("resized to %+v, want %+v", c.Lease, l)
			}
			m.sizing = nil
		case Named:
			if m.named[c.Naming.Type] != c.Naming.Last {
				m.fail("named %+v, want %d", c.Naming, m.named[c.Naming.Type])
			}
		case Done:
			m.applyDone(c)
		case Remembered:
			if m.isEnded[c.Ended.ID] != nil || c.Ended.Until != m.now+modelEndedKept {
				m.fail("remembered %+v", c.Ended)
			}
			if c.Ended.Lease != m.settling[c.Ended.ID] {
				m.fail("remembered %+v, want %+v", c.Ended.Lease, m.settling[c.Ended.ID])
			}
			delete(m.settling, c.Ended.ID)
			if c.Ended.Removed != m.removing[c.Ended.ID] {
				m.fail("remembered %+v, want it removed because of %q", c.Ended, m.removing[c.Ended.ID])
			}
			if c.Ended.Result != m.results[c.Ended.ID] {
				m.fail("remembered %+v, want %d as its result", c.Ended, m.results[c.Ended.ID])
			}
			delete(m.results, c.Ended.ID)
			delete(m.removing, c.Ended.ID)
			m.ends(c.Ended)
		case Forgotten:
			if len(m.ended) == 0 || m.ended[0] != c.Ended || c.Ended.Until > m.now {
				m.fail("forgotten %+v", c.Ended)
			}
			m.ended = m.ended[1:]
			delete(m.isEnded, c.Ended.ID)
		case Queued, Joined:
			m.applyNote(c)
		case Overtaken:
			m.passed = append(m.passed, c.Waiter)
		case Moved:
			if r := m.requests[c.Waiter.ID]; r == nil || !r.queued || *c.Waiter != r.waiter() {
				m.fail("moved %+v, want %+v", c.Waiter, r)
			}
			m.count("moved")
		case Recounted:
			r := m.requests[c.Waiter.ID]
			if want := r.waiter(); !m.counting[c.Waiter.ID] || *c.Waiter != want.asNoted(c) {
				m.fail("recounted %+v, want %+v", c.Waiter, want)
			}
			delete(m.counting, c.Waiter.ID)
			m.count("recounted")
		case Missed, Returned:
			if r := m.requests[c.Waiter.ID]; r == nil || !r.queued || r.missed != (c.Kind == Missed) || *c.Waiter != r.waiter() {
				m.fail("now waits %+v, want %+v", c.Waiter, r)
			}
			m.count(map[Kind]string{Missed: "missed", Returned: "returned"}[c.Kind])
		case Dropped:
			m.applyDropped(c)
		case LockBegun:
			if want, ok := m.locking[c.Locked.Name]; !ok || *c.Locked != want {
				m.fail("locked %+v, want %+v", c.Locked, want)
			}
			delete(m.locking, c.Locked.Name)
			m.count("locked")
		case LockOver:
			m.applyUnlock(*c.Locked)
		case NameReserved:
			if n := m.names[c.Reserved.Name]; n == nil || n.reserved == nil || *c.Reserved != n.reservation() {
				m.fail("reserved %+v, want %+v", c.Reserved, n)
			}
			delete(m.vanishing, c.Reserved.Name)
		case NameGivenBack:
			m.applyGivenBack(*c.Reserved)
		case Paced:
			p := m.pools[c.Pacing.Type]
			if p == nil != (c.Pacing.Count == 0) || p != nil && *c.Pacing != p.paced {
				m.fail("paced %+v, want %+v", c.Pacing, p)
			}
		case Paused:
			if *c.Pause != m.pauses[c.Pause.Type] {
				m.fail("paused %+v, want %+v", c.Pause, m.pauses[c.Pause.Type])
			}
		case Resumed:
			if _, paused := m.pauses[c.Pause.Type]; paused {
				m.fail("resumed %+v", c.Pause)
			}
		case ReportCounted:
			m.applyTold(c)
		case Adapted:
			m.applyAdapted(c)
		case LostOther:
			r := m.requests[c.Leases[0].RequestID]
			if r == nil || !r.lost || !slices.EqualFunc(c.Leases, r.leases, func(l Lease, held *modelLease) bool { return l == held.Lease }) {
				m.fail("%+v have lost another, want %+v", c.Leases, r)
			}
			m.count("lost another")
		default:
			m.fail("change %+v", c)
		}
	}
}

// applyGrant: all names or none, those of the pool that are free longest, within
// the capacity, under new generations, at the pace, in the order of the queue.
func (m *model) applyGrant(c Change) {
	r := m.requests[c.ID]
	how := "granted later"
	if wasQueued := (m.asking == nil || m.asking.ID != c.ID) && r != nil && !r.Anonymous; c.WasQueued != wasQueued {
		m.fail("%s was granted, and was queued: %t, want %t", c.ID, c.WasQueued, wasQueued)
	}
	switch {
	case m.asking != nil && m.asking.ID == c.ID:
		r, how = m.asking, "granted at once"
		if next, _ := r.pool.whoGoes(r); next != r {
			m.fail("%s was granted before %v, or while its key was held", c.ID, r.pool.first())
		}
		m.overtake(c, r, r.passes())
		for _, w := range r.wants() {
			w.pool.hasNext = w.pool.isWaitedFor()
		}
		m.asking, r.arrived = nil, m.now
	case r == nil || !r.queued:
		m.fail("%s was granted and does not wait", c.ID)
	default:
		next, _ := r.pool.whoGoes(nil)
		if next != r.lead() {
			m.fail("%s was granted before %v, and %v may go", c.ID, r.pool.first(), next)
		}
		if next.turn() != r {
			m.fail("%s was granted, and it is the turn of %v", c.ID, next.turn())
		}
		if !m.isFirst(r) {
			m.fail("%s was granted, and another in another pool was first", c.ID)
		}
		if r.pool.queue[0] != next {
			m.count("overtaken")
		}
		passes := next.passes()
		if r.leader != nil {
			passes = [][]*modelRequest{next.pool.thereBefore(next)}
		}
		m.overtake(c, r, passes)
		if r.leader != nil {
			m.takeTurn(r)
		}
		m.wantTold(r)
		m.leave(r)
	}
	m.count(how)
	if r.pool.shuts(r) {
		m.fail("%s was granted key %q, which is held", c.ID, r.Key)
	}
	if r.pool.keys[r.Key] > 0 {
		m.count("read together")
	}
	if r.several() {
		m.count("several together")
	}
	if c.Took != m.now-r.arrived || !m.mayGo(r) {
		m.fail("%s was granted after %v, want after %v, and that it may go: %t", c.ID, c.Took, m.now-r.arrived, m.mayGo(r))
	}
	granted := c.Leases
	for _, w := range r.wants() {
		leases, _ := r.shares(w)
		if len(granted) < leases {
			m.fail("%s got %+v, want more: all or none", c.ID, c.Leases)
		}
		m.applyGrantOf(r, w, granted[:leases])
		granted = granted[leases:]
	}
	if len(granted) > 0 {
		m.fail("%s got %+v, and these are too many", c.ID, c.Leases)
	}
}

// applyGrantOf checks the leases of one pool that r is granted.
func (m *model) applyGrantOf(r *modelRequest, w want, granted []Lease) {
	p := w.pool
	if p.gone || !p.fits(r) {
		m.fail("%s was granted %d units: %d of %d in use, %d names free, due at %v, paused %v", r.ID, w.units, p.inUse, p.limit, len(p.free), p.due(), m.pauses[p.Type])
	}
	if p.taken()+w.units > p.limit {
		m.count("overcommitted")
	}
	if p.gap() > 0 && p.due() > 0 && p.due() < m.now {
		m.count("granted late")
	}
	p.spend(w.units)
	_, units := r.shares(w)
	names := m.nextNames(p, r, len(granted))
	for i, l := range granted {
		m.generation++
		want := Lease{Name: names[i], Type: p.Type, Generation: m.generation, Owner: r.Owner, RequestID: r.ID,
			Ask: r.Ask, Units: units, TTL: r.ttl(), Granted: m.now,
			Expires: m.now + modelProvisional, Provisional: true, At: m.wall}
		if p != r.pool {
			want.AskedType = r.Type
		}
		if r.Anonymous {
			want.RequestID, want.Expires, want.Provisional = "", m.now+want.TTL, false
		}
		if l != want {
			m.fail("granted %+v, want %+v", l, want)
		}
		m.hold(want, p, r)
	}
	p.notePace()
}

// spend counts a grant of units, or a growth by them, for the pace.
func (p *modelPool) spend(units int) {
	now := p.m.now
	if !p.hasNext {
		p.since = now
	}
	if p.due() > now {
		p.spent += units
	} else {
		p.start, p.spent = max(p.due(), p.since, now-p.gap()/2), units
	}
}

// notePace is what must be durable of the pace then.
func (p *modelPool) notePace() {
	if p.gap() > 0 {
		p.paced = Pacing{Type: p.Type, Generation: p.m.generation, Start: p.start, Count: p.spent}
	}
}

// applyUnlock: a lock delay ends when its time is over.
func (m *model) applyUnlock(l Locked) {
	n := m.names[l.Name]
	if n == nil || n.lock == nil || *n.lock != l || l.Until > m.now {
		m.fail("unlocked %+v, want %+v", l, n.lock)
	}
	n.lock = nil
	p := m.pools[l.Type]
	p.locked -= l.Units
	m.freeName(l.Name)
	m.drop(p, l.Key, l.ReadsKey)
}

// lock begins the lock delay of a name.
func (m *model) lock(l Locked) {
	m.name(l.Name).lock = &l
	m.pools[l.Type].locked += l.Units
	m.take(m.pools[l.Type], l.Key, l.ReadsKey)
	m.times.push(entry{at: l.Until, lock: &l})
}

// hold makes l a held lease, granted to r.
func (m *model) hold(l Lease, p *modelPool, r *modelRequest) {
	n := m.name(l.Name)
	if n.lease != nil {
		m.fail("%+v was granted, and held is %+v", l, n.lease.Lease)
	}
	held := &modelLease{Lease: l, index: len(m.leases)}
	m.leases = append(m.leases, held)
	n.lease = held
	if l.RequestID != "" {
		held.request = r
		r.leases = append(r.leases, held)
		m.requests[r.ID] = r
	}
	p.inUse += l.Units
	m.take(p, l.heldKey(), l.ReadsKey)
	m.held++
	m.times.lease(held)
}

// applyDone: a lease ends once, when its time is over or because a call ends it.
func (m *model) applyDone(c Change) {
	n := m.names[c.Lease.Name]
	if n == nil || n.lease == nil || n.lease.Lease != c.Lease || c.Took != m.now-c.Lease.Granted {
		m.fail("ended after %v: %+v, held was %v", c.Took, c.Lease, n)
	}
	l := n.lease
	want, over := m.ending[l]
	if !over {
		over = l.ends() <= m.now
		switch {
		case l.ReleaseAt > 0:
			want = Released
		case l.Broken != "":
			want = Reason("broken: " + l.Broken)
		default:
			want = Expired
		}
	}
	delete(m.ending, l)
	if !over || c.Reason != want {
		m.fail("%+v ended (%s), want it to end (%s) at %v", l.Lease, c.Reason, want, l.ends())
	}
	if c.Reason.Broken() {
		m.count("broken")
	} else {
		m.count(string(c.Reason))
	}
	m.uses(l)
	n.lease, n.lastGeneration, n.lastReason = nil, l.Generation, c.Reason
	last := m.leases[len(m.leases)-1]
	m.leases[l.index], last.index = last, l.index
	m.leases = m.leases[:len(m.leases)-1]
	m.held--
	p := m.pools[l.Type]
	p.inUse -= l.Units
	delay := p.LockDelay
	if n.pool != nil {
		delay = n.pool.LockDelay
	}
	if delay > 0 && c.Reason != Released {
		locked := Locked{Name: l.Name, Type: l.Type, Units: l.Units, Key: l.heldKey(), ReadsKey: l.ReadsKey, Until: m.now + delay}
		m.locking[l.Name] = locked
		m.lock(locked)
	} else {
		m.freeName(l.Name)
	}
	m.drop(p, l.heldKey(), l.ReadsKey)
	if r := l.request; r != nil {
		r.leases = slices.DeleteFunc(r.leases, func(other *modelLease) bool { return other == l })
		if !r.lost && (c.Reason != Released || l.Broken != "") {
			r.lost = true
			for _, other := range r.leases {
				other.OtherLost = true
			}
		}
		if l.AskedType == "" {
			if r.used = max(l.Count, l.Units); l.Weighted && p.Units > 0 {
				r.used = l.Units
			}
		}
		if len(r.leases) == 0 {
			delete(m.requests, r.ID)
			m.settles(r, l.Lease)
			m.conclude(r)
		}
	}
}

// ends records e as ended.
func (m *model) ends(e Ended) {
	m.ended = append(m.ended, e)
	m.isEnded[e.ID] = ErrEnded
	if e.Removed != "" {
		m.isEnded[e.ID] = &RemovedError{e.Removed}
	}
	if e.Result != 0 {
		m.isEnded[e.ID] = &CoalescedError{e.Result}
	}
}

// sameError reports whether got is want, including the operator's reason.
func sameError(got, want error) bool {
	var told, tells *CoalescedError
	if errors.As(got, &told) != errors.As(want, &tells) || told != nil && *told != *tells {
		return false
	}
	if told != nil {
		return true
	}
	var g, w *RemovedError
	if errors.As(got, &g) != errors.As(want, &w) {
		return false
	}
	return g != nil && *g == *w || g == nil && errors.Is(got, want)
}

// applyDropped: a waiter leaves because a call ends it, or because its place was kept long
// enough.
func (m *model) applyDropped(c Change) {
	if r := m.superseded[c.ID]; r != nil {
		if !sameError(c.Err, &CoalescedError{Superseded}) || c.Took != m.now-r.arrived {
			m.fail("%s was dropped with error %v, want it superseded", c.ID, c.Err)
		}
		delete(m.superseded, c.ID)
		return
	}
	r := m.requests[c.ID]
	if r == nil || !r.queued {
		m.fail("%s was dropped and does not wait", c.ID)
	}
	asked, ok := m.leaving[c.ID]
	alone := r.attached == 0 && (r.Anonymous || r.keptUntil <= m.now)
	if !sameError(c.Err, asked) || !ok && !alone || c.WasQueued == r.Anonymous || c.Took != m.now-r.arrived || *c.Request != r.Request {
		m.fail("%s was dropped after %v with error %v, want %v", c.ID, c.Took, c.Err, asked)
	}
	delete(m.leaving, c.ID)
	m.count("dropped")
	if r.leader == nil {
		m.passOn(r)
	}
	m.leave(r)
	m.promote(r)
}
