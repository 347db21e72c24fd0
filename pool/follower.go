package pool

import "slices"

// A follower is a request that waits for the result of another, its leader, which waits or has
// leases. When the leader's turn comes, the leases go to the first of the leader and its
// followers that is not away.

// join makes r, a new request, a follower of lead.
func (g *ledger) join(lead, r *request) {
	g.register(r)
	g.follow(lead, r)
	g.activate(r)
	g.noteWaiter(Joined, r)
}

// follow puts r behind the other followers of lead, which arrived earlier. If r has a better rank
// than they and lead, lead moves to it.
func (g *ledger) follow(lead, r *request) {
	r.leader = lead
	lead.followers = append(lead.followers, r)
	r.pool.following++
	if g.ownRank(r).before(lead.rank) {
		g.rerank(lead)
	}
}

// unfollow is the counterpart of follow.
func (g *ledger) unfollow(r *request) {
	g.deactivate(r)
	lead := r.leader
	i := slices.Index(lead.followers, r)
	lead.followers = slices.Delete(lead.followers, i, i+1)
	r.leader = nil
	r.pool.following--
}

// supersede drops last and gives its place to r, a new request.
func (g *ledger) supersede(last, r *request) {
	g.drop(last, &CoalescedError{Superseded})
	g.remember(Ended{ID: last.ID, Result: Superseded})
	g.takePlace(r, last)
}

// takeTurn makes f, a follower of lead, the leader of lead and its other followers.
// Lead has left the queue before, and f is granted its leases afterwards.
func (g *ledger) takeTurn(lead, f *request) {
	g.unfollow(f)
	f.followers = append([]*request{lead}, lead.followers...)
	lead.followers = nil
	lead.pool.following++
	g.adopt(f)
}

// adopt makes lead the leader of its followers.
func (g *ledger) adopt(lead *request) {
	for _, f := range lead.followers {
		f.leader = lead
		g.noteWaiter(Joined, f)
	}
}

// drop ends the wait of r without a lease. Its connections are told err.
func (g *ledger) drop(r *request, err error) {
	if lead := r.leader; lead != nil {
		g.unfollow(r)
		if g.ownRank(r) == lead.rank {
			g.rerank(lead)
		}
	} else {
		g.takeOffQueue(r)
		g.passOn(r)
	}
	g.deregister(r)
	g.touch(r.pool) // r may have been in the way
	c := g.note(Dropped)
	c.ID, c.Request, c.Err, c.WasQueued, c.Took = r.ID, &r.Request, err, !r.Anonymous, g.now-r.arrived
	g.promote(r)
}

// conclude decides about the followers of r, whose last lease has ended. If the run of r passes
// on a result, their wait ends with it. Otherwise the oldest follower waits at the place of its
// own arrival, and the others follow it.
func (g *ledger) conclude(r *request) {
	if r.result == 0 || r.lost {
		g.promote(r)
		return
	}
	for _, f := range slices.Clone(r.followers) {
		g.drop(f, &CoalescedError{r.result})
		g.remember(Ended{ID: f.ID, Result: r.result})
	}
}

// promote puts the oldest follower of r, which is gone, into the queue, as the leader of the
// others.
func (g *ledger) promote(r *request) {
	if len(r.followers) == 0 {
		return
	}
	p := r.pool
	first := r.followers[0]
	first.leader, first.followers, r.followers = nil, r.followers[1:], nil
	p.following--
	first.activeCount = 0
	for _, f := range append([]*request{first}, first.followers...) {
		if f.active {
			first.activeCount++
		}
	}
	g.addToQueue(first)
	if first.activeCount > 0 {
		g.enter(first)
	}
	g.noteWaiter(Queued, first)
	g.adopt(first)
	g.dismiss(first)
}

// dismiss drops those of r, which is in the queue, and its followers that the pool will never
// serve: a follower may want more units than its leader, and be next when the leader is away.
func (g *ledger) dismiss(r *request) {
	for _, f := range append(slices.Clone(r.followers), r) {
		if err := r.pool.neverServes(f); err != nil {
			g.drop(f, err)
		}
	}
}
