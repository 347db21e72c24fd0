package pool

// enqueue puts r, a new request, into the queue.
func (g *ledger) enqueue(r *request) {
	g.register(r)
	g.addToQueue(r)
	g.activate(r)
	g.noteWaiter(Queued, r)
}

// miss makes r wait for its client, which could not reach the server for a while, unless a
// connection is attached to r, or r has been missed before.
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

// clientReturned notes that the client of r has come back.
func (g *ledger) clientReturned(r *request) {
	r.activeUntil = 0
	g.timers.remove(&r.timer)
	if r.missed {
		r.missed = false
		g.noteWaiter(Returned, r)
	}
	g.activate(r)
}

// leave moves a waiter without connections through its states: active for a
// little longer, then keeping its place, then gone.
func (g *ledger) leave(r *request) {
	if g.now < r.activeUntil {
		g.schedule(&r.timer, r.activeUntil)
		return
	}
	g.deactivate(r)
	if g.now < r.keptUntil {
		g.schedule(&r.timer, r.keptUntil)
		return
	}
	g.drop(r, nil)
}
