package pool

import "time"

// Stalled says that the server could not act for a while, until now: it was stopped or starved,
// or its machine was paused. Clients that renewed, or came back to their place, were not heard.
// So a stall is treated like a restart: see [New]. Stalled must be the first call with this
// now: any other call would first end what is overdue.
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
