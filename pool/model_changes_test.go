package pool

import (
	"errors"
	"slices"
)

// apply takes in what changed.
func (m *model) apply(changes []Change) {
	for _, c := range changes {
		switch c.Kind {
		case Granted:
			m.applyGrant(c)
		case Renewed, Extended, Delayed, Broken:
			if n := m.names[c.Lease.Name]; n == nil || n.lease == nil || n.lease.Lease != c.Lease {
				m.fail("changed to %+v, want %v", c.Lease, n)
			}
		case Done:
			m.applyDone(c)
		case Remembered:
			if m.isEnded[c.Ended.ID] != nil || c.Ended.Until != m.now+modelEndedKept {
				m.fail("remembered %+v", c.Ended)
			}
			if c.Ended.Removed != m.removing[c.Ended.ID] {
				m.fail("remembered %+v, want it removed because of %q", c.Ended, m.removing[c.Ended.ID])
			}
			delete(m.removing, c.Ended.ID)
			m.ends(c.Ended)
		case Forgotten:
			if len(m.ended) == 0 || m.ended[0] != c.Ended || c.Ended.Until > m.now {
				m.fail("forgotten %+v", c.Ended)
			}
			m.ended = m.ended[1:]
			delete(m.isEnded, c.Ended.ID)
		case Queued:
			m.applyQueued(c)
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
		if r.pool.active > 0 {
			m.fail("%s was granted before %s, which is active and came first", c.ID, r.pool.first().ID)
		}
		m.asking, r.arrived, r.pool.since = nil, m.now, m.now
	case r == nil || !r.queued:
		m.fail("%s was granted and does not wait", c.ID)
	case r.pool.first() != r:
		m.fail("%s was granted before %s, which is active and came first", c.ID, r.pool.first().ID)
	case r.missed:
		m.fail("%s was granted, and has not come back", c.ID)
	default:
		if r.pool.queue[0] != r {
			m.count("overtaken")
		}
		m.leave(r)
	}
	m.count(how)
	p := r.pool
	if _, paused := m.pauses[p.Type]; paused {
		m.fail("%s was granted names of %s, which is paused", c.ID, p.Type)
	}
	if p.gone || !p.fits(r.Count) || p.due() > m.now {
		m.fail("%s was granted %d names: %d of %d in use, %d free, due at %v", c.ID, r.Count, p.inUse, len(p.Names), len(p.free), p.due())
	}
	if len(c.Leases) != r.Count || c.Took != m.now-r.arrived {
		m.fail("%s got %d names after %v, want %d after %v", c.ID, len(c.Leases), c.Took, r.Count, m.now-r.arrived)
	}
	if p.Pace > 0 && p.due() > 0 && p.due() < m.now {
		m.count("granted late")
	}
	p.start, p.spent = max(p.due(), p.since, m.now-p.Pace/2), r.Count
	for i, l := range c.Leases {
		m.generation++
		want := Lease{Name: p.free[i], Type: p.Type, Generation: m.generation, Owner: r.Owner,
			RequestID: r.ID, Count: r.Count, TTL: p.ttl(r.TTL), Granted: m.now,
			Expires: m.now + modelProvisional, Provisional: true}
		if r.Anonymous {
			want.RequestID, want.Expires, want.Provisional = "", m.now+want.TTL, false
		}
		if l != want {
			m.fail("granted %+v, want %+v", l, want)
		}
		m.hold(want, p, r)
	}
	p.free = p.free[r.Count:]
	if p.Pace > 0 {
		p.paced = Pacing{Type: p.Type, Generation: m.generation, Start: p.start, Count: p.spent}
	}
}

// applyQueued: a request waits that could not be granted.
func (m *model) applyQueued(c Change) {
	r := m.asking
	if r == nil || r.ID != c.Waiter.ID {
		m.fail("%s was queued, and did not ask", c.Waiter.ID)
	}
	m.asking = nil
	m.enter(r)
	if *c.Waiter != r.waiter() {
		m.fail("queued is %+v, want %+v", c.Waiter, r.waiter())
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
	p.locked--
	p.dirty = true
	if n.pool != nil {
		n.pool.free = append(n.pool.free, l.Name)
		n.pool.dirty = true
	}
}

// lock begins the lock delay of a name.
func (m *model) lock(l Locked) {
	m.names[l.Name].lock = &l
	m.pools[l.Type].locked++
	m.times.push(entry{at: l.Until, lock: &l})
}

// hold makes l a lease that is held, granted to r.
func (m *model) hold(l Lease, p *modelPool, r *modelRequest) {
	n := m.names[l.Name]
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
	p.inUse++
	p.dirty = true
	m.held++
	m.times.lease(held)
}

// applyDone: a lease ends once, when its time is over or because it was asked.
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
	n.lease, n.lastGeneration, n.lastReason = nil, l.Generation, c.Reason
	last := m.leases[len(m.leases)-1]
	m.leases[l.index], last.index = last, l.index
	m.leases = m.leases[:len(m.leases)-1]
	m.held--
	p := m.pools[l.Type]
	p.inUse--
	p.dirty = true
	delay := p.LockDelay
	if n.pool != nil {
		delay = n.pool.LockDelay
	}
	if delay > 0 && c.Reason != Released {
		locked := Locked{Name: l.Name, Type: l.Type, Until: m.now + delay}
		m.locking[l.Name] = locked
		m.lock(locked)
	} else if n.pool != nil {
		n.pool.free = append(n.pool.free, l.Name)
		n.pool.dirty = true
	}
	if r := l.request; r != nil {
		r.leases = slices.DeleteFunc(r.leases, func(other *modelLease) bool { return other == l })
		if len(r.leases) == 0 {
			delete(m.requests, r.ID)
		}
	}
}

// ends makes e one that has ended.
func (m *model) ends(e Ended) {
	m.ended = append(m.ended, e)
	m.isEnded[e.ID] = ErrEnded
	if e.Removed != "" {
		m.isEnded[e.ID] = &RemovedError{e.Removed}
	}
}

// sameError reports whether got is want, to the operator's reason.
func sameError(got, want error) bool {
	var g, w *RemovedError
	if errors.As(got, &g) != errors.As(want, &w) {
		return false
	}
	return g != nil && *g == *w || g == nil && errors.Is(got, want)
}

// applyDropped: a waiter leaves because it was asked to, or is alone too long.
func (m *model) applyDropped(c Change) {
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
	m.leave(r)
}
