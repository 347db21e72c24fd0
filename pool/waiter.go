package pool

// enqueue makes r, which has the next place in the order of arrivals, wait with one
// connection attached.
func (g *ledger) enqueue(r *request) {
	g.arrivals = r.arrival
	r.attached = 1
	g.line(r)
	g.activate(r)
	g.noteWaiter(Queued, r)
}

// line puts r into its queue.
func (g *ledger) line(r *request) {
	r.timer.on = r
	r.pool.queue.insert(r)
	r.pool.wanted += r.units
	if r.key = r.pool.key(r.Key); r.key != nil {
		r.key.waiting++
	}
	g.requests[r.ID] = r
	g.waiting++
}

// activate counts r among the active waiters of its pool.
func (g *ledger) activate(r *request) {
	if k := r.key; k != nil {
		k.active.put(r)
		g.offer(r.pool, k)
	} else {
		g.admit(r.pool, r)
	}
	g.touch(r.pool)
}

// deactivate is the counterpart of activate.
func (g *ledger) deactivate(r *request) {
	if k := r.key; k != nil {
		k.active.remove(r)
		g.offer(r.pool, k)
	} else {
		r.pool.next.remove(r)
	}
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
	if r.active() {
		g.deactivate(r)
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
	p := r.pool
	p.queue.remove(r)
	p.wanted -= r.units
	g.deactivate(r)
	if r.key != nil {
		r.key.waiting--
		p.forgetKey(r.key)
		r.key = nil
	}
	g.timers.remove(&r.timer)
	delete(g.requests, r.ID)
	g.waiting--
}
