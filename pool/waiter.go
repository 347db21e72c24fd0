package pool

// enqueue makes r wait, with one connection attached.
func (g *ledger) enqueue(r *request) {
	g.arrivals++
	r.arrival = g.arrivals
	r.attached = 1
	g.line(r)
	g.activate(r)
	g.noteWaiter(Queued, r)
}

// line puts r, which came after all others, at the end of its queue.
func (g *ledger) line(r *request) {
	r.timer.on = r
	r.pool.queue.push(r)
	r.pool.wanted += r.Count
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

// miss makes r wait for its client, which could not reach the server for a while,
// unless it is there, or has been missed before.
func (g *ledger) miss(r *request) {
	if r.attached > 0 || r.missed {
		return
	}
	r.missed = true
	r.activeUntil, r.keptUntil = later(g.now, HoldBack), later(g.now, PlaceKept)
	g.activate(r)
	g.leave(r)
	g.noteWaiter(Missed, r)
}

// meet says that the client of r has come back.
func (g *ledger) meet(r *request) {
	r.activeUntil = 0
	g.timers.remove(&r.timer)
	if r.missed {
		r.missed = false
		g.noteWaiter(Returned, r)
	}
	g.activate(r)
}

// noteWaiter notes a change of r.
func (g *ledger) noteWaiter(kind Kind, r *request) {
	w := r.waiter()
	g.note(Change{Kind: kind, Waiter: &w})
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
	g.note(Change{Kind: Dropped, ID: r.ID, Request: &r.Request, Err: err, WasQueued: !r.Anonymous, Took: g.now - r.arrived})
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
