package pool

// register counts r among the requests that wait.
func (g *ledger) register(r *request) {
	g.arrivals = max(g.arrivals, r.arrival)
	r.timer.on = r
	g.requests[r.ID] = r
	g.waiting++
}

// deregister is the counterpart of register.
func (g *ledger) deregister(r *request) {
	r.active = false
	g.timers.remove(&r.timer)
	delete(g.requests, r.ID)
	g.waiting--
}

// addToQueue puts r into the queue of its pool, and into that of its key.
func (g *ledger) addToQueue(r *request) {
	r.rank, r.standing = g.bestRank(r)
	r.pool.list(r)
	if r.key = r.pool.key(r.Key); r.key != nil {
		r.key.queue.insert(r)
	}
}

// takeOffQueue is the counterpart of addToQueue.
func (g *ledger) takeOffQueue(r *request) {
	p := r.pool
	g.exit(r)
	p.unlist(r)
	if r.key != nil {
		r.key.queue.remove(r)
		p.forgetKey(r.key)
		r.key = nil
	}
}

// activate makes r active: requests behind it overtake it only while it does not fit.
func (g *ledger) activate(r *request) {
	lead := r.lead()
	if !r.active {
		r.active = true
		lead.activeCount++
	}
	if lead.queued() {
		g.enter(lead)
	}
	g.touch(r.pool)
}

// deactivate is the counterpart of activate.
func (g *ledger) deactivate(r *request) {
	if !r.active {
		return
	}
	r.active = false
	lead := r.lead()
	if lead.activeCount--; lead.activeCount == 0 && lead.queued() {
		g.exit(lead)
	}
	g.touch(r.pool) // r may have been in the way
}

// noteWaiter notes a change of r.
func (g *ledger) noteWaiter(kind Kind, r *request) {
	w := r.waiter()
	g.note(kind).Waiter = &w
}
