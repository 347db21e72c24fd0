package pool

import (
	"errors"
	"time"
)

// Why a Report is refused, beside [ErrUnknownRequest].
var (
	ErrNoLease = errors.New("the request has no lease, and had none")
	ErrOutcome = errors.New("an outcome is ok or throttled")
)

// Report takes the report of a holder on its lease, and returns whether it counts: each outcome
// of a request counts once, and [OutcomeOK] not after [OutcomeThrottled]. A report is accepted
// until [EndedKept] after the end of the lease.
func (s *Set) Report(now time.Duration, said Report) (bool, error) {
	s.Advance(now)
	if said.Outcome != OutcomeOK && said.Outcome != OutcomeThrottled {
		return false, ErrOutcome
	}
	counts, err := s.report(said)
	s.serve()
	return counts, err
}

// HolderOf returns the owner of a request that holds leases, or whose leases have ended and are
// remembered; false for any other request.
func (s *Set) HolderOf(now time.Duration, id string) (string, bool) {
	s.Advance(now)
	switch r := s.requests[id]; {
	case r != nil:
		return r.Owner, !r.queued()
	case s.ended.has(id):
		l := s.ended.get(id).Lease
		return l.Owner, l.Type != ""
	}
	return "", false
}

func (g *ledger) report(said Report) (bool, error) {
	r := g.requests[said.RequestID]
	switch {
	case r == nil && g.ended.has(said.RequestID):
		return g.reportEnded(said)
	case r == nil:
		return false, ErrUnknownRequest
	case r.queued() || r.Anonymous:
		return false, ErrNoLease
	case r.said == said.Outcome || r.said == OutcomeThrottled:
		return false, nil
	}
	r.said = said.Outcome
	for _, l := range r.leases {
		l.Outcome = said.Outcome
	}
	p := r.pool
	l := EndedLease{Type: p.Type, Owner: r.Owner, Generation: r.leases[len(r.leases)-1].Generation, Limit: p.limit.now()}
	c := g.note(ReportCounted)
	c.Leases, c.Reported = r.values(), l.reported(said)
	if said.Outcome == OutcomeThrottled {
		g.count(p, l, said.Detail, func() { p.limit.throttled(g.now, l, g.generation) })
	}
	return true, nil
}

// reportEnded is report of a lease that has ended.
func (g *ledger) reportEnded(said Report) (bool, error) {
	e := g.ended.get(said.RequestID)
	before := e.Lease
	switch {
	case before.Type == "":
		return false, ErrNoLease
	case before.Outcome == said.Outcome || before.Outcome == OutcomeThrottled:
		return false, nil
	}
	e.Lease.Outcome = said.Outcome
	c := g.note(ReportCounted)
	c.Ended = *e
	c.Reported = before.reported(said)
	if p := g.types[before.Type]; p != nil {
		g.count(p, before, said.Detail, func() {
			if said.Outcome == OutcomeOK {
				p.limit.endedOK(before, g.generation)
				return
			}
			if before.Outcome == OutcomeOK {
				p.limit.takeBack(before)
			}
			p.limit.throttled(g.now, before, g.generation)
		})
	}
	return true, nil
}
