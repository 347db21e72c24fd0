package pool

import (
	"slices"
	"time"
)

// calendar is when the model expects something to happen by itself. An entry that was postponed
// stays in it, and is skipped when it is due.
type calendar struct {
	heap []entry
}

// entry is the end of a lease or of a lock delay. For a waiter without a connection it is the
// end of its activity or of its place.
type entry struct {
	at       time.Duration
	lease    *modelLease
	lock     *Locked
	reserved *Reservation
	request  *modelRequest
}

// stands reports whether the entry is still true.
func (e entry) stands(m *model) bool {
	if e.lease != nil {
		n := m.names[e.lease.Name]
		return n != nil && n.lease == e.lease && e.lease.ends() == e.at
	}
	if e.lock != nil {
		n := m.names[e.lock.Name]
		return n != nil && n.lock != nil && *n.lock == *e.lock
	}
	if e.reserved != nil {
		n := m.names[e.reserved.Name]
		return n != nil && n.reserved == e.reserved
	}
	r := e.request
	return r.queued && r.attached == 0 && (r.active && r.activeUntil == e.at || r.keptUntil == e.at)
}

func (c *calendar) lease(l *modelLease) { c.push(entry{at: l.ends(), lease: l}) }

func (c *calendar) alone(r *modelRequest) {
	if r.active {
		c.push(entry{at: r.activeUntil, request: r})
	}
	c.push(entry{at: r.keptUntil, request: r})
}

// first returns the next entry that stands; false if there is none.
func (c *calendar) first(m *model) (entry, bool) {
	for len(c.heap) > 0 {
		if e := c.heap[0]; e.stands(m) {
			return e, true
		}
		c.pop()
	}
	return entry{}, false
}

func (c *calendar) push(e entry) {
	h := append(c.heap, e)
	for i := len(h) - 1; i > 0 && h[i].at < h[(i-1)/2].at; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	c.heap = h
}

func (c *calendar) pop() {
	h := c.heap
	last := len(h) - 1
	h[0] = h[last]
	h[last] = entry{}
	h = h[:last]
	for i := 0; 2*i+1 < len(h); {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].at < h[child].at {
			child++
		}
		if h[i].at <= h[child].at {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	c.heap = h
}

// pass moves the time of the model to now. Waiters whose time is over become inactive. It
// returns the things that must have happened, which [model.settle] checks.
func (m *model) pass(now time.Duration) (due []entry) {
	m.now = max(m.now, now)
	for {
		e, ok := m.times.first(m)
		if !ok || e.at > m.now {
			break
		}
		m.times.pop()
		if r := e.request; r != nil && r.active {
			m.goes(r)
		}
		if e.stands(m) {
			due = append(due, e)
		}
	}
	for _, p := range m.order {
		p.dirty = p.dirty || p.next >= 0 && p.next <= m.now
	}
	return due
}

// settle checks that everything in due has happened.
func (m *model) settle(due []entry) {
	for _, e := range due {
		switch {
		case !e.stands(m):
		case e.lock != nil:
			m.fail("%+v should be over", *e.lock)
		case e.reserved != nil:
			m.fail("%+v should be given back", *e.reserved)
		case e.lease != nil:
			m.fail("%+v should have ended", e.lease.Lease)
		default:
			m.fail("%s still waits, its place was kept until %v", e.request.ID, e.at)
		}
	}
	if len(m.ended) > 0 && m.ended[0].Until <= m.now {
		m.fail("%+v should be forgotten", m.ended[0])
	}
	several := slices.ContainsFunc(m.order, func(p *modelPool) bool { return p.dirty && p.severals > 0 })
	for _, p := range m.order {
		if p.dirty || several && p.severals > 0 {
			m.settlePool(p)
		}
	}
	for l := range m.ending {
		m.fail("%+v should have ended, as was asked", l.Lease)
	}
	for id := range m.results {
		m.fail("%s should be remembered as merged", id)
	}
	for id := range m.superseded {
		m.fail("%s should be superseded", id)
	}
	for name := range m.vanishing {
		m.fail("%s should be noted as reserved, and in no pool", name)
	}
	for id := range m.counting {
		m.fail("%s should be noted as recounted", id)
	}
	if len(m.expected)+len(m.told)+len(m.passed) > 0 {
		m.fail("%+v should be noted, and %+v and %+v were", m.expected, m.told, m.passed)
	}
	for _, c := range slices.Concat(m.telling, m.adapting) {
		m.fail("%+v, %+v should have been noted", c.Reported, c.Reports)
	}
	for id := range m.settling {
		m.fail("%s should be remembered", id)
	}
	for name := range m.locking {
		m.fail("%s should be locked", name)
	}
	for name := range m.giving {
		m.fail("%s should be given back, as was asked", name)
	}
	for id := range m.leaving {
		m.fail("%s should be off the queue, as was asked", id)
	}
}

func (m *model) settlePool(p *modelPool) {
	m.look(p)
	p.dirty, p.next, p.delays = false, -1, p.limitDelays()
	r, _ := p.whoGoes(nil)
	r = r.turn()
	goes := r != nil && (!m.isPaused(p) || r.Overcommit) && p.fits(r)
	if goes && (p.due() <= m.now || r.Overcommit) {
		m.fail("%s is next, wants %d of %d units, has been due since %v, and has none", r.ID, r.in(p), p.limit-p.inUse, p.due())
	}
	waits := p.severals > 0 // it may wait for the pace here while it is not next
	if p.due() > m.now && !m.isPaused(p) && (goes || waits) {
		p.next = p.due()
	}
}

// next returns when the next thing happens by itself; false if never.
func (m *model) next() (next time.Duration, ok bool) {
	add := func(at time.Duration) {
		if !ok || at < next {
			next, ok = at, true
		}
	}
	if e, ok := m.times.first(m); ok {
		add(e.at)
	}
	if len(m.ended) > 0 {
		add(m.ended[0].Until)
	}
	for _, p := range m.order {
		if p.next >= 0 {
			add(p.next)
		}
	}
	return next, ok
}
