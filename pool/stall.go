package pool

import "time"

// Stalled says that the server was not able to act for a while, until now: it was
// stopped, or starved, or its machine was paused. Clients that renewed, or came back to
// their place, were not heard. So a stall is treated as a restart is: see [New]. Stalled
// must be the first call with such a now: any other would end what is overdue first.
func (s *Set) Stalled(now time.Duration) {
	s.now = max(s.now, now)
	s.compensate()
	s.Advance(s.now)
}

// compensate makes up for a time in which no client was heard: leases get their full TTL
// again, and waiters get time to come back.
func (g *ledger) compensate() {
	for _, p := range g.pools {
		for _, l := range p.byGrant() {
			g.extend(l)
		}
		for _, r := range p.waiters() {
			g.miss(r)
		}
	}
}
