package pool

import (
	"errors"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
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

// HolderOf returns the type and the owner of a request that holds leases, or whose leases have ended
// and are remembered; false for any other request.
func (s *Set) HolderOf(now time.Duration, id string) (typ, owner string, ok bool) {
	s.Advance(now)
	if r := s.requests.get(id); r != nil {
		return r.Type, r.Owner, !r.queued()
	}
	if e := s.ended.get(id); e != nil {
		return e.Lease.Type, e.Lease.Owner, e.Lease.Type != ""
	}
	return "", "", false
}

func (g *ledger) report(said Report) (bool, error) {
	r, e := g.requests.get(said.RequestID), g.ended.get(said.RequestID)
	switch {
	case r == nil && e != nil:
		return g.reportEnded(e, said)
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
func (g *ledger) reportEnded(e *tombstone, said Report) (bool, error) {
	before := e.Lease
	switch {
	case before.Type == "":
		return false, ErrNoLease
	case before.Outcome == said.Outcome || before.Outcome == OutcomeThrottled:
		return false, nil
	}
	e.Lease.Outcome = said.Outcome
	c := g.note(ReportCounted)
	c.Ended = e.Ended
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

// Outcome is what the holder of a lease reports about the account.
type Outcome uint8

// The outcomes. A lease without a report has NoOutcome, and moves no limit.
const (
	NoOutcome        Outcome = iota
	OutcomeOK                // nothing was throttled; it counts when the lease has ended
	OutcomeThrottled         // it counts at once, and beats OutcomeOK
)

// String returns the word of o; empty for NoOutcome.
func (o Outcome) String() string {
	switch o {
	case OutcomeOK:
		return leaseapi.OutcomeOK
	case OutcomeThrottled:
		return leaseapi.OutcomeThrottled
	}
	return ""
}

// OutcomeOf returns the outcome of a word; [NoOutcome] for any other word.
func OutcomeOf(word string) Outcome {
	switch word {
	case leaseapi.OutcomeOK:
		return OutcomeOK
	case leaseapi.OutcomeThrottled:
		return OutcomeThrottled
	}
	return NoOutcome
}

// Report is what a holder reports on the leases of one request. They count as one, since they
// ran together and one holder saw how they ended.
type Report struct {
	RequestID string
	Outcome   Outcome
	Detail    string // for people; may be empty
}

// Reported is a report that counts.
type Reported struct {
	Report
	Type       string
	Owner      string
	Generation uint64 // of a lease of the request
	Limit      int    // of the pool when it counted
}

// EndedLease is what a later report needs to know of a lease that has ended.
type EndedLease struct {
	Type, Owner string
	Generation  uint64
	Units       int
	Limit       int     // of the pool when the lease ended
	Full        bool    // its request lost no lease, and one of its leases ended while the pool was in full use
	Outcome     Outcome // reported for it so far
}

// reported returns the record of a report on l.
func (l EndedLease) reported(said Report) *Reported {
	return &Reported{Report: said, Type: l.Type, Owner: l.Owner, Generation: l.Generation, Limit: l.Limit}
}

// Reports is the state of a pool that reports change: the limit and its last move, and counts.
type Reports struct {
	Type string
	Adaptation
	Moved Move    // the last one
	Tally []Tally // by limit, ascending; at most [MaxTally]
}

// Move is one move of a limit. The zero Move says that there was none.
type Move struct {
	At       time.Duration // on the lease clock
	From, To int
	Owner    string // whose report it was
	Detail   string // of the report
}

// Cut reports whether the limit fell.
func (m Move) Cut() bool { return m.To < m.From }

// The words of [Move.What].
const LimitCut, LimitRaised = "limit cut", "limit raised"

// What says for people what happened.
func (m Move) What() string {
	if m.Cut() {
		return LimitCut
	}
	return LimitRaised
}

// Why says for people why the limit moved.
func (m Move) Why() string {
	if m.Cut() {
		return "leases were throttled"
	}
	return "as many leases as the limit ended ok"
}

// Tally is how many requests were reported to have ended ok, and to have been
// throttled, at one limit of a pool.
type Tally struct {
	Limit         int
	OK, Throttled int
}

// MaxTally is for how many limits a pool counts reports. Beyond it, the limit that is furthest
// from the reported one is dropped.
const MaxTally = 64

// noteUse notes whether l, which is about to end, ends while its pool is in full use. Reserved names
// do not count: they show nothing of what an account bears.
func (g *ledger) noteUse(l *lease) {
	p := l.pool
	if r := l.request; r != nil && l.AskedType == "" && !r.full && !g.paused(p) {
		r.full = full(p.taken(), p.limit.now()) || p.limitDelays
	}
}

// delaysByLimit reports whether the first candidate of p that is there must wait for the limit of p, or
// for the pace that follows from the limit.
func (g *ledger) delaysByLimit(p *pool) bool {
	if p.Adapt == nil {
		return false
	}
	for _, c := range p.candidates() {
		if r := c.turn(); r != nil {
			paced := p.Hold > 0 && g.due(p, r) > g.now
			return p.leasesFor(r) <= p.leasesLeft() && (paced || !p.hasRoom(r.units, p.taken(), r.Overcommit))
		}
	}
	return false
}

// used returns how many units the lease, or all leases of its request for several names, had.
func (l *lease) used() int {
	if l.Weighted && l.pool.counted() {
		return l.Units
	}
	return max(l.Count, l.Units)
}

// settle returns what is remembered of l, the last lease of r, which has ended, and counts the leases
// of the first type if they were reported as ok.
func (g *ledger) settle(r *request, l *Lease) EndedLease {
	p := r.pool
	e := EndedLease{
		Type: p.Type, Owner: r.Owner, Generation: l.Generation, Units: max(1, r.units), Limit: p.limit.now(),
		Full: r.full && !r.lost, Outcome: r.said,
	}
	if e.Outcome == OutcomeOK {
		g.count(p, e, "", func() { p.limit.endedOK(e, g.generation) })
	}
	return e
}

// count applies a report of l to the limit of p: take does so, and count notes the change.
func (g *ledger) count(p *pool, l EndedLease, detail string, take func()) {
	if p.retired {
		return
	}
	from := p.limit.now()
	take()
	to, reports := p.limit.now(), &p.limit.reports
	reports.Type = p.Type
	if to != from {
		reports.Moved = Move{At: g.now, From: from, To: to, Owner: l.Owner, Detail: detail}
		g.touch(p)
	}
	now := *reports
	now.Tally = slices.Clone(now.Tally)
	c := g.note(Adapted)
	c.Reports, c.Moved = &now, to != from
}
