package pool

import "slices"

// serve grants what can be granted in the pools that were touched. The first
// active waiter goes first; if it does not fit, or the pace delays it, nobody
// overtakes it.
func (g *ledger) serve() {
	for _, p := range g.touched {
		p.touched = false
		for {
			r, ok := p.active.first()
			if !ok || !p.fits(r.Count) {
				g.timers.remove(&p.timer)
				break
			}
			if due := p.due(); due > g.now {
				g.schedule(&p.timer, due)
				break
			}
			g.dequeue(r)
			g.grant(r)
		}
	}
	g.touched = g.touched[:0]
}

// grant gives r, which fits and is not queued, its leases.
func (g *ledger) grant(r *request) {
	p := r.pool
	r.TTL = p.ttl(r.TTL) // the maximum may have changed while it waited
	id, ttl := r.ID, ProvisionalTTL
	if r.Anonymous {
		id, ttl = "", r.TTL
	} else {
		g.requests[r.ID] = r
	}
	p.spend(g.now, r.Count)
	for _, name := range p.stock.take(r.Count) {
		g.generation++
		g.install(Lease{
			Name: name, Type: p.Type, Generation: g.generation, Owner: r.Owner,
			RequestID: id, Count: r.Count,
			TTL: r.TTL, Granted: g.now, Expires: later(g.now, ttl), Provisional: !r.Anonymous,
		}, g.slots[name], p, r)
	}
	g.note(Change{Kind: Granted, ID: r.ID, Leases: r.values(), Took: g.now - r.arrived})
}

// install makes l the lease of its name, granted to r if that is still known.
func (g *ledger) install(l Lease, sl *slot, p *pool, r *request) {
	held := &lease{Lease: l, slot: sl, pool: p, request: r}
	held.timer.on = held
	sl.lease = held
	p.held.put(held)
	p.ahead.spoil()
	g.held++
	if r != nil {
		r.leases = append(r.leases, held)
	}
	g.schedule(&held.timer, held.Ends())
}

// expire ends a lease whose time is over.
func (g *ledger) expire(l *lease) {
	switch {
	case l.ReleaseAt > 0:
		g.end(l, Released)
	case l.Broken != "":
		g.end(l, brokenFor(l.Broken))
	default:
		g.end(l, Expired)
	}
}

// end ends a lease. The request ends with the last of its leases.
func (g *ledger) end(l *lease, why Reason) {
	g.timers.remove(&l.timer)
	l.pool.held.remove(l)
	l.pool.ahead.spoil()
	g.held--
	g.touch(l.pool)

	sl := l.slot
	sl.lease, sl.lastGeneration, sl.lastReason = nil, l.Generation, why
	if sl.pool != nil {
		sl.pool.stock.put(l.Name)
		g.touch(sl.pool)
	}
	took := g.now - l.Granted
	// Nobody worked under a grant that was not received, and a broken one does
	// not tell how long jobs take.
	if !l.Provisional && l.Broken == "" {
		l.pool.past.add(took)
	}
	g.note(Change{Kind: Done, Lease: l.Lease, Reason: why, Took: took})

	r := l.request
	if r == nil || r.Anonymous {
		return
	}
	r.leases = slices.DeleteFunc(r.leases, func(other *lease) bool { return other == l })
	if len(r.leases) == 0 {
		delete(g.requests, r.ID)
		g.remember(r.ID)
	}
}
