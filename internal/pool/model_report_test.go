package pool

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// The rules of reports, and of the limit that they move, written a second time.

// gap is the least time between two grants.
func (p *modelPool) gap() time.Duration {
	if p.Adapt == nil || p.Hold == 0 {
		return p.Pace
	}
	return p.Hold / time.Duration(p.limit)
}

// relimit computes the limit from settings and reports.
func (p *modelPool) relimit() {
	p.limit = p.capacity()
	if p.Adapt == nil {
		return
	}
	switch {
	case p.reports.Limit > 0:
		p.limit = p.reports.Limit
	case p.Adapt.Start > 0:
		p.limit = p.Adapt.Start
	}
	p.limit = min(max(1, p.Adapt.Floor, p.limit), p.capacity())
}

// hears counts a report, and notes what must be durable then.
func (m *model) hears(p *modelPool, l EndedLease, detail string, outcome Outcome, wasOK bool) {
	if p == nil || p.gone {
		return
	}
	i := slices.IndexFunc(p.reports.Tally, func(t Tally) bool { return t.Limit == l.Limit })
	if i < 0 {
		p.reports.Tally = append(p.reports.Tally, Tally{Limit: l.Limit})
		slices.SortFunc(p.reports.Tally, func(a, b Tally) int { return a.Limit - b.Limit })
		for len(p.reports.Tally) > 64 { // drop the furthest
			if first := p.reports.Tally[0].Limit; l.Limit-first > p.reports.Tally[64].Limit-l.Limit {
				p.reports.Tally = p.reports.Tally[1:]
			} else {
				p.reports.Tally = p.reports.Tally[:64]
			}
		}
		i = slices.IndexFunc(p.reports.Tally, func(t Tally) bool { return t.Limit == l.Limit })
	}
	if wasOK {
		p.reports.Tally[i].OK = max(0, p.reports.Tally[i].OK-1) // the report did not count if the pool was gone when the lease ended
		if p.Adapt != nil && l.Full {
			p.reports.OK = max(0, p.reports.OK-l.Units)
		}
	}
	from, found := p.limit, p.reports.Limit
	if outcome == OutcomeThrottled {
		p.reports.Tally[i].Throttled++
		if p.Adapt != nil {
			p.reports.Limit = p.limit
			m.suspect(p, l.Generation)
		}
	} else {
		p.reports.Tally[i].OK++
		if p.Adapt != nil {
			p.reports.Limit = p.limit
			m.usual(p, 0, 1)
			if l.Full {
				m.trust(p, l)
			}
		}
	}
	if p.reports.Limit == from {
		p.reports.Limit = found // a report that moves nothing does not forget what was found
	}
	p.reports.Type = p.Type
	if p.relimit(); p.limit != from {
		p.reports.Moved = Move{At: m.now, From: from, To: p.limit, Owner: l.Owner, Detail: detail}
		p.dirty = true
		m.count(map[bool]string{true: "limit cut", false: "limit raised"}[p.limit < from])
	}
	want := p.reports
	want.Tally = slices.Clone(want.Tally)
	m.adapting = append(m.adapting, Change{Kind: Adapted, Reports: &want, Moved: p.limit != from})
}

// suspect: two leases that are newer than the last cut, within five minutes, cut the
// limit by a tenth, rounded up; below 10, one does. One more each is needed where 1, 3 and 7 % of
// the leases are usually throttled.
func (m *model) suspect(p *modelPool, generation uint64) {
	a := &p.reports.Adaptation
	if generation <= a.Cut || generation == a.Suspect {
		return
	}
	if m.now > a.SuspectAt+5*time.Minute {
		m.usual(p, a.Suspects, 0)
		a.Suspects = 0
	}
	need := 1
	if p.limit >= 10 {
		share := float64(a.UsualThrottled) / float64(100+a.UsualThrottled+a.UsualOK)
		for _, least := range []float64{0, 0.01, 0.03, 0.07} {
			if share >= least {
				need++
			}
		}
	}
	if a.Suspects++; a.Suspects < need {
		a.Suspect, a.SuspectAt = generation, m.now
		return
	}
	m.count(fmt.Sprintf("%d suspects cut", need))
	a.Suspect, a.SuspectAt, a.Suspects, a.OK, a.Cut = 0, 0, 0, 0, m.generation
	down := p.limit / 10
	if p.limit%10 > 0 {
		down++
	}
	if to := max(1, p.Adapt.Floor, p.limit-down); to < p.limit {
		if a.Wall != 0 && a.Wall <= p.limit {
			a.Gate = map[int]int{0: 8, 8: 16, 16: 16}[a.Gate]
			m.count("gate doubled")
		}
		a.Wall, a.Limit = p.limit, to
	}
}

// usual: leases that were throttled or ended well below the wall; of more than 1,000 half is forgotten.
func (m *model) usual(p *modelPool, throttled, ok int) {
	a := &p.reports.Adaptation
	if a.Wall != 0 && a.Wall <= p.limit {
		return
	}
	a.UsualThrottled += throttled
	a.UsualOK += ok
	if a.UsualThrottled+a.UsualOK > 1000 {
		a.UsualThrottled, a.UsualOK = a.UsualThrottled/2, a.UsualOK/2
	}
}

// trust: as many units as the limit raise it by a tenth. The step to the wall takes four times
// as many or more. Leases that began at the wall let the limit pass it.
func (m *model) trust(p *modelPool, l EndedLease) {
	a := &p.reports.Adaptation
	there := a.Wall != 0 && a.Wall <= p.limit
	if there && l.Generation <= a.Risen {
		return
	}
	need, to := p.limit, p.limit+max(1, p.limit/10)
	switch {
	case a.Wall == p.limit+1:
		need, to = p.limit*max(4, a.Gate), a.Wall
	case a.Wall > p.limit:
		to = min(to, a.Wall-1)
	}
	if a.OK += l.Units; a.OK < need {
		return
	}
	a.OK = need
	if there {
		a.Wall, a.Gate = 0, 0
		m.count("wall passed")
	}
	if to = min(to, p.capacity()); to > p.limit {
		a.Limit, a.OK, a.Risen = to, 0, m.generation
	}
}

// uses notes whether a lease that ends now does so while its pool is in full use: nine tenths of the limit
// are taken, or the first that could be next waited for the limit or for its pace when the last step ended.
func (m *model) uses(l *modelLease) {
	p := m.pools[l.Type]
	if _, paused := m.pauses[l.Type]; l.request == nil || l.AskedType != "" || paused {
		return
	}
	if float64(p.taken()) >= 0.9*float64(p.limit) {
		l.request.full = true
	} else if p.delays {
		m.count("the limit delays while less is taken")
		l.request.full = true
	}
}

func (p *modelPool) limitDelays() bool {
	for i, r := range p.candidates(nil) {
		turn := r.turn()
		if turn == nil || i == Lookahead { // who is not there, and who is not looked at
			continue
		}
		isPaced := p.Hold > 0 && p.due() > p.m.now && !turn.Overcommit
		return p.Adapt != nil && !p.gone && (p.Units > 0 || turn.in(p) <= len(p.free)) && (isPaced || !p.hasRoom(turn, p.taken()))
	}
	return false
}

// settles computes what is remembered of the last lease of a request.
func (m *model) settles(r *modelRequest, l Lease) {
	p := m.pools[r.Type] // may be nil: the pool of another lease is still there
	e := EndedLease{Type: r.Type, Owner: l.Owner, Generation: l.Generation, Units: max(1, r.used), Limit: p.limitNow(),
		Full: r.full && !r.lost, Outcome: r.said}
	if r.said == OutcomeOK {
		m.hears(p, e, "", OutcomeOK, false)
	}
	m.settling[r.ID] = e
}

// limitNow is the limit of p, which may be gone.
func (p *modelPool) limitNow() int {
	if p == nil || p.gone {
		return 0
	}
	return p.limit
}

// applyTold: only a report that was made and counts is noted.
func (m *model) applyTold(c Change) {
	if len(m.telling) == 0 || !reflect.DeepEqual(c, m.telling[0]) {
		m.fail("told %+v of %+v and %+v, want %+v", c.Reported, c.Leases, c.Ended, m.telling)
	}
	m.telling = m.telling[1:]
	m.count("told " + c.Reported.Outcome.String())
}

// applyAdapted: reports are durable when they count.
func (m *model) applyAdapted(c Change) {
	c.Act = Act{} // whatever act caused it
	if len(m.adapting) == 0 || !reflect.DeepEqual(c, m.adapting[0]) {
		m.fail("adapted %+v, want %+v", c.Reports, m.adapting)
	}
	m.adapting = m.adapting[1:]
}

// report makes a report on a lease.
func (m *sim) report(said Report) {
	m.logf("report %+v", said)
	r := m.requests[said.RequestID]
	i := -1
	if r == nil && m.isEnded[said.RequestID] != nil {
		i = lastEnded(m.ended, said.RequestID)
	}
	var want error
	counts := false
	switch {
	case r == nil && i < 0:
		want = ErrUnknownRequest
	case r != nil && (r.queued || r.Anonymous), r == nil && m.ended[i].Lease == EndedLease{}:
		want = ErrNoLease
	case r != nil:
		if counts = r.said == NoOutcome || r.said == OutcomeOK && said.Outcome == OutcomeThrottled; counts {
			m.tells(r, said)
		}
	default:
		was := m.ended[i].Lease.Outcome
		if counts = was == NoOutcome || was == OutcomeOK && said.Outcome == OutcomeThrottled; counts {
			m.count("told late")
			l := m.ended[i].Lease
			m.ended[i].Lease.Outcome = said.Outcome
			m.telling = append(m.telling, Change{Kind: ReportCounted, Ended: m.ended[i],
				Reported: &Reported{Report: said, Type: l.Type, Owner: l.Owner, Generation: l.Generation, Limit: l.Limit}})
			m.hears(m.pools[l.Type], l, said.Detail, said.Outcome, was == OutcomeOK)
		}
	}
	m.do(func(now time.Duration) {
		got, err := m.set.Report(now, said)
		if m.mustBe(err, want); got != counts {
			m.failf("the report counts: %v, want %v", got, counts)
		}
	})
}

// lastEnded returns the index of id in ended. It searches from the end, since most ids that are
// asked for ended lately.
func lastEnded(ended []Ended, id string) int {
	for i := len(ended) - 1; i >= 0; i-- {
		if ended[i].ID == id {
			return i
		}
	}
	return -1
}

// tells is a report on a held lease.
func (m *model) tells(r *modelRequest, said Report) {
	r.said = said.Outcome
	var leases []Lease
	for _, l := range r.leases {
		l.Outcome = said.Outcome
		leases = append(leases, l.Lease)
	}
	p, last := m.pools[r.Type], leases[len(leases)-1]
	m.telling = append(m.telling, Change{Kind: ReportCounted, Leases: leases,
		Reported: &Reported{Report: said, Type: r.Type, Owner: last.Owner, Generation: last.Generation, Limit: p.limitNow()}})
	if said.Outcome == OutcomeThrottled {
		m.hears(p, EndedLease{Owner: last.Owner, Generation: last.Generation, Limit: p.limitNow()}, said.Detail, said.Outcome, false)
	}
}

// somebodyReports reports on a lease that is held, was held, or never existed.
func (m *sim) somebodyReports() {
	said := Report{RequestID: "nobody", Outcome: OutcomeOK}
	switch n := m.rand.IntN(20); {
	case n < 14 && len(m.leases) > 0:
		said.RequestID = m.leases[m.rand.IntN(len(m.leases))].RequestID
	case n < 19 && len(m.ended) > 0:
		said.RequestID = m.ended[len(m.ended)-1-m.rand.IntN(min(20, len(m.ended)))].ID
	}
	if m.rand.IntN(8) == 0 {
		said.Outcome, said.Detail = OutcomeThrottled, "Throttling"
	}
	m.remember(func() { m.report(said) })
	m.report(said)
}
