package pool

import "slices"

// noteUse notes whether l, which is about to end, ends while its pool is in full use.
func (g *ledger) noteUse(l *lease) {
	if r := l.request; r != nil {
		r.full = r.full || !g.paused(l.pool) && full(l.pool.inUse(), l.pool.limit.now())
	}
}

// settle returns what is remembered of l, the last lease of r, which has ended, and counts l if
// it was reported as ok.
func (g *ledger) settle(r *request, l *Lease) EndedLease {
	p := r.pool
	e := EndedLease{
		Type: p.Type, Owner: r.Owner, Generation: l.Generation, Units: max(l.Count, l.Units), Limit: p.limit.now(),
		Full: r.full && !r.lost, Outcome: r.said,
	}
	if l.Weighted && p.counted() {
		e.Units = l.Units
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
