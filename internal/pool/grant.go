package pool

// serve makes the grants that are possible in the touched pools, at the end of a call.
func (g *ledger) serve() {
	g.grantTouched()
	for _, p := range g.touched {
		p.idle, p.limitDelays = !p.hasWaiters(), g.delaysByLimit(p)
	}
	g.touched = g.touched[:0]
}

// grantTouched makes the grants of serve. In each pool the first active waiter that no key keeps out is
// next, and while it does not fit, others may overtake it: see nextGrant. Nobody does while the pace
// delays a grant, or while the pool is paused.
//
// While requests of several pools wait, the first in the order over all touched pools goes first:
// otherwise a request might be overtaken in one pool only because the one ahead of it in another,
// which fits, was not granted yet.
func (g *ledger) grantTouched() {
	for i := 0; i < len(g.touched); { // a grant may touch more
		pools := g.touched[i:]
		if g.several == 0 {
			pools = pools[:1]
		}
		var first, turn *request
		for _, p := range pools {
			if r, t := g.dueGrant(p); t != nil && (first == nil || ahead(r, first)) {
				first, turn = r, t
			}
		}
		if turn != nil {
			g.grantTurn(first.whole(), turn.whole())
			continue
		}
		for _, p := range pools {
			p.touched = false
		}
		i += len(pools)
	}
}

// dueGrant is nextGrant if that grant may be made now. Otherwise it sets the timer of p, if only the
// pace delays it.
func (g *ledger) dueGrant(p *pool) (r, turn *request) {
	r, turn = g.nextGrant(p)
	switch {
	case turn != nil && g.open(p, turn) && g.due(p, turn) <= g.now:
		return r, turn
	case p.due() > g.now && !g.paused(p) && (turn != nil || p.several > 0): // the pace may delay those of several pools, too
		g.schedule(&p.timer, p.due())
	default:
		g.timers.remove(&p.timer)
	}
	return nil, nil
}

// grantTurn gives r, which is in the queue, or its follower turn, its leases.
func (g *ledger) grantTurn(r, turn *request) {
	overtook := g.overtake(r, turn.units)
	g.takeOffQueue(r)
	g.passOn(r)
	if turn != r {
		g.takeTurn(r, turn)
	}
	g.noteFollowers(turn)
	g.deregister(turn)
	g.grant(turn, true, overtook)
}

// grant gives r, which fits, its leases, and returns the slice that the change has. r is not in
// the queue; wasQueued says whether it was before, and overtook how many waiters it went ahead of.
func (g *ledger) grant(r *request, wasQueued bool, overtook int) []Lease {
	for seat := range r.allSeats {
		r.TTL = seat.pool.ttl(r.TTL) // the maximum may have changed while it waited
	}
	id, ttl := r.ID, ProvisionalTTL
	if r.Anonymous {
		id, ttl = "", r.TTL
	} else {
		g.requests.add(r)
	}
	for seat := range r.allSeats {
		p := seat.pool
		askedType := ""
		if seat != r {
			askedType = r.Type
		}
		count := p.leasesFor(seat)
		p.spend(g.now, seat.units, g.generation+uint64(count))
		for _, name := range g.take(seat, count) {
			g.generation++
			g.install(&lease{Lease: Lease{
				Name: name, Type: p.Type, Generation: g.generation, Owner: r.Owner, RequestID: id,
				AskedType: askedType, Ask: r.Ask, Units: seat.units / count,
				TTL: r.TTL, Granted: g.now, Expires: later(g.now, ttl), Provisional: !r.Anonymous, At: g.wall,
			}, slot: g.slot(name), pool: p, request: r})
		}
	}
	leases := r.values()
	c := g.note(Granted)
	c.ID, c.Leases, c.WasQueued, c.Overtook, c.Took = r.ID, leases, wasQueued && !r.Anonymous, overtook, g.now-r.arrived
	for seat := range r.allSeats {
		p := seat.pool
		if p.counted() {
			g.note(Named).Naming = &Naming{Type: p.Type, Last: g.named[p.Type]}
		}
		g.notePace(p)
	}
	r.seats = nil
	return leases
}

// notePace notes what counts for the pace of p after a grant or a growth, if p has a pace.
func (g *ledger) notePace(p *pool) {
	if p.pace() > 0 {
		p.pacing = Pacing{Type: p.Type, Generation: p.rhythm.generation, Start: p.rhythm.start, Count: p.rhythm.count}
		pacing := p.pacing
		g.note(Paced).Pacing = &pacing
	}
}
