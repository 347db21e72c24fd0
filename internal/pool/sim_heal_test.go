package pool

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// heal is the second phase of a simulation, without faults. Waiters come back and stay, or are
// gone for good, and holders release what they are granted. Then everybody is served, or gone,
// within the time that the pace, the lock delays and absent clients may take.
func (m *sim) heal() {
	m.logf("everything heals")
	if m.lossy > 0 {
		m.lossy = 0
		m.crash()
	}
	for _, pause := range slices.SortedFunc(maps.Values(m.pauses), func(a, b Pause) int { return cmp.Compare(a.Type, b.Type) }) {
		m.resume(pause.Type)
		m.check(nil)
	}
	m.giveAllBack()
	for _, r := range slices.Clone(m.waiters) {
		switch {
		case !r.queued:
		case r.isShut(): // one of its pools is too small now, and this is no fault that heals
			m.cancel(r.ID)
			m.check(nil)
		case m.rand.IntN(3) == 0: // gone
			for r.queued && r.attached > 0 {
				m.detach(r.ID, 0)
				m.check(nil)
			}
		case r.queued && r.attached == 0:
			m.acquire(r.Request)
			m.check(nil)
		}
	}
	bound := m.healing()
	for begin := m.clock; ; {
		for len(m.leases) > 0 {
			m.note("healed")
			m.release(ref(m.leases[0].Lease), 0)
			m.check(nil)
		}
		if len(m.waiters) == 0 {
			break
		}
		next, ok := m.set.Next()
		if !ok || m.clock-begin > bound {
			m.failf("%d still wait %v after everything healed, %+v first; something is due: %t", len(m.waiters), m.clock-begin, m.waiters[0], ok)
		}
		m.pass(next - m.now)
	}
	m.audit()
}

// healing is how long it may take until all waiters are served or gone. A grant that has long
// been due saves up nothing for later grants.
func (m *sim) healing() (most time.Duration) {
	for _, p := range m.order { // one of several pools waits for the pace of each
		units := 0
		for _, r := range p.queue {
			units += r.in(p)
		}
		most += max(0, p.due()-m.now) + time.Duration(units)*p.gap()
	}
	for _, n := range m.names {
		if n.lock != nil {
			most = max(most, n.lock.Until-m.now)
		}
	}
	return most + modelPlaceKept
}
