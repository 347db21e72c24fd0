package pool

// enqueue makes r wait, with one connection attached.
func (g *ledger) enqueue(r *request) {
	g.arrivals++
	r.arrival = g.arrivals
	r.attached = 1
	r.timer.on = r
	r.pool.queue.push(r)
	r.pool.wanted += r.Count
	g.activate(r)
	g.requests[r.ID] = r
	g.waiting++
}

// activate counts r among the active waiters of its pool.
func (g *ledger) activate(r *request) {
	p := r.pool
	if p.active.Len() == 0 {
		p.activeSince = g.now
	}
	p.active.put(r)
	g.touch(p)
}

// leave moves a waiter without connections through its states: active for a
// little longer, then keeping its place, then gone.
func (g *ledger) leave(r *request) {
	if g.now < r.activeUntil {
		g.schedule(&r.timer, r.activeUntil)
		return
	}
	if r.pool.active.has(r) {
		r.pool.active.remove(r)
		g.touch(r.pool) // it may have been in the way
	}
	if g.now < r.keptUntil {
		g.schedule(&r.timer, r.keptUntil)
		return
	}
	g.drop(r, nil)
}

// drop takes r off its queue without a lease. Its connections are told err.
func (g *ledger) drop(r *request, err error) {
	g.dequeue(r)
	g.touch(r.pool) // it may have been in the way
	g.note(Change{Kind: Dropped, ID: r.ID, Err: err, Took: g.now - r.arrived})
}

// dequeue takes r off its queue.
func (g *ledger) dequeue(r *request) {
	r.pool.queue.remove(r)
	r.pool.wanted -= r.Count
	r.pool.active.remove(r)
	g.timers.remove(&r.timer)
	delete(g.requests, r.ID)
	g.waiting--
}
