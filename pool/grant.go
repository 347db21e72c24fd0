package pool

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// serve makes the grants that are possible in the touched pools, at the end of a call.
func (g *ledger) serve() {
	g.grantTouched()
	for _, p := range g.touched {
		p.idle = p.next.Len() == 0
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
		g.requests[r.ID] = r
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
		if p.pace() > 0 {
			p.pacing = Pacing{Type: p.Type, Generation: p.rhythm.generation, Start: p.rhythm.start, Count: p.rhythm.count}
			pacing := p.pacing
			g.note(Paced).Pacing = &pacing
		}
	}
	r.seats = nil
	return leases
}

// take returns names for count leases of r, whose pool must have as many left. A listed pool takes
// them from its stock. A counted pool makes up names that are not in use.
func (g *ledger) take(r *request, count int) []string {
	p := r.pool
	if !p.counted() {
		return g.takeFromStock(r, count)
	}
	names := make([]string, 0, count)
	last := g.named[p.Type]
	for len(names) < count {
		last = last%lastMadeUp + 1
		if name := madeUp(p.Type, last); !g.used(name) {
			names = append(names, name)
		}
	}
	g.named[p.Type] = last
	return names
}

// takeFromStock takes the name that r wants out of the stock, or else count names: first those that
// no waiter wants by name.
func (g *ledger) takeFromStock(r *request, count int) []string {
	p := r.pool
	switch {
	case r.slot != nil:
		p.unstock(r.slot)
		return []string{r.Name}
	case p.wantedNames == 0: // as nearly always
		taken := p.stock[:count]
		p.stock = p.stock[count:]
		return taken
	}
	var taken, wanted, left []string
	for _, name := range p.stock {
		switch {
		case len(taken) == count:
			left = append(left, name)
		case g.slots[name].wanted != nil:
			wanted = append(wanted, name)
		default:
			taken = append(taken, name)
		}
	}
	n := min(count-len(taken), len(wanted))
	p.stock = append(wanted[n:], left...)
	return append(taken, wanted[:n]...)
}

// unstock takes the name of sl out of the stock.
func (p *pool) unstock(sl *slot) {
	i := slices.Index(p.stock, sl.name)
	p.stock = slices.Delete(p.stock, i, i+1)
}

// install makes l the lease of its slot. The request of l is nil if it is not known.
func (g *ledger) install(l *lease) {
	p, r := l.pool, l.request
	l.timer.on = l
	l.slot.lease = l
	g.offerName(l.slot)
	p.held.put(l)
	p.heldUnits += l.Units
	p.outlook.invalidate()
	if k := g.holdKey(p, l.HeldKey(), l.ReadsKey); k != nil {
		k.leases = append(k.leases, l)
	}
	g.held++
	if r != nil {
		r.leases = append(r.leases, l)
	}
	g.schedule(&l.timer, l.Ends())
}

// renew makes l end ttl from now, unless something else ends it before. The renewal becomes a
// change if durable is set, or if it is the first since a restart or a stall: only such a
// change lets the next restart give l its full TTL again.
func (g *ledger) renew(l *lease, ttl time.Duration, durable bool) {
	durable = durable || l.Extended
	l.Expires, l.Extended = later(g.now, ttl), false
	g.schedule(&l.timer, l.Ends())
	if durable {
		g.note(Renewed).Lease = l.Lease
	}
}

// extend gives l its full TTL again, since nobody could renew it for a while. It does so only
// once until somebody renews l: otherwise restarts would keep the lease of a dead holder alive.
func (g *ledger) extend(l *lease) {
	if l.Broken != "" || l.Extended {
		return
	}
	ttl := l.TTL
	if l.Provisional {
		ttl = ProvisionalTTL
	}
	l.Expires, l.Extended = later(g.now, ttl), true
	g.schedule(&l.timer, l.Ends())
	g.note(Extended).Lease = l.Lease
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
	g.noteUse(l)
	g.timers.remove(&l.timer)
	l.pool.held.remove(l)
	l.pool.heldUnits -= l.Units
	l.pool.outlook.invalidate()
	g.held--
	g.touch(l.pool)

	sl := l.slot
	sl.lease, sl.lastGeneration, sl.lastReason = nil, l.Generation, why
	took := g.now - l.Granted
	// A holder that never confirmed its grant may not have worked, and a broken lease does not
	// show how long jobs take.
	if !l.Provisional && l.Broken == "" {
		l.pool.past.add(took)
	}
	c := g.note(Done)
	c.Lease = l.Lease
	c.Reason, c.Took = why, took
	if delay := l.lockDelay(); why != Released && delay > 0 {
		g.lock(sl, l.pool, Locked{Name: l.Name, Type: l.Type, Units: l.Units, Key: l.HeldKey(), ReadsKey: l.ReadsKey, Until: later(g.now, delay)})
	} else {
		g.free(sl)
	}
	g.freeKey(l.pool, l.HeldKey(), l)

	r := l.request
	if r == nil || r.Anonymous {
		return
	}
	r.removeLease(l)
	if l.AskedType == "" {
		r.units = l.used()
	}
	if why != Released || l.Broken != "" {
		g.lose(r)
	}
	if len(r.leases) == 0 {
		delete(g.requests, r.ID)
		g.remember(Ended{ID: r.ID, Unconfirmed: l.Provisional && why == Expired, Lease: g.settle(r, &l.Lease)})
		g.conclude(r)
	}
}

// lose notes that a lease of r, which has ended, was lost. The leases that r still holds say so,
// too: after a restart nothing else is known of r.
func (g *ledger) lose(r *request) {
	if r.lost {
		return
	}
	r.lost = true
	if len(r.leases) == 0 {
		return
	}
	for _, l := range r.leases {
		l.OtherLost = true
	}
	g.note(LostOther).Leases = r.values()
}

// removeLease takes out l, which has ended. At the head, where most leases end, it moves
// nothing.
func (r *request) removeLease(l *lease) {
	i, _ := slices.BinarySearchFunc(r.leases, l, compareGrants)
	if i > 0 {
		r.leases = slices.Delete(r.leases, i, i+1)
		return
	}
	r.leases[0] = nil // let go of it
	r.leases = r.leases[1:]
}

// taken returns how many units are held, or withheld by the lock delay: these count against the limit.
func (p *pool) taken() int { return p.heldUnits + p.locked }

// inUse returns how many units of the limit cannot be granted. Names that are reserved and nothing else
// are out of the capacity, so they count as far as they are more than a limit below the capacity leaves
// unused anyway: nobody works there, so they take nothing of what jobs share.
func (p *pool) inUse() int {
	return p.taken() + max(0, p.setAside()-(p.Capacity()-p.limit.now()))
}

// ceiling returns how many units may be in use after a grant.
func (p *pool) ceiling(overcommit bool) int {
	if overcommit {
		return p.limit.now() + p.Overcommit
	}
	return p.limit.now()
}

// free returns how many units can be granted. Units that are taken count even if they are no longer
// configured, so the result may be negative.
func (p *pool) free(overcommit bool) int {
	units := p.ceiling(overcommit) - p.taken()
	if p.counted() {
		return units
	}
	return min(units, p.leasesLeft())
}

// leasesLeft returns how many leases can be granted beside those that are held.
func (p *pool) leasesLeft() int {
	if p.counted() {
		return lastMadeUp - p.held.Len() - len(p.locks)
	}
	return len(p.stock)
}

// hasRoom reports whether units may be taken beside others. A request above the limit may have them
// alone: otherwise it would never be granted, and block the queue.
func (p *pool) hasRoom(units, others int, overcommit bool) bool {
	return others+units <= p.ceiling(overcommit) || others == 0 && units <= p.Capacity()
}

// fits reports whether there is room for r beside what is in use.
func (p *pool) fits(r *request) bool {
	return p.leasesFor(r) <= p.leasesLeft() && p.hasRoom(r.units, p.taken(), r.Overcommit)
}

// lacks returns how many units must come free before the request whose turn is next fits; zero
// if it fits, or if there is no such request.
func (p *pool) lacks() int {
	next, ok := p.next.first()
	if !ok {
		return 0
	}
	next = cmp.Or(next.turn(), next)
	if p.fits(next) {
		return 0
	}
	n, _ := p.missing(0, next).most()
	return max(1, n)
}

// missing is what must come free before a request fits: so many units of the limit, and so many names
// of a listed pool. The end of a lease frees both, but only the former if the name is reserved; the end
// of a reservation frees a name. None are missing if a number is zero or less.
type missing struct{ units, names int }

// missing returns what r misses, if the requests ahead of r want before units. If r is next, it fits
// at the latest when nothing is taken: see hasRoom.
func (p *pool) missing(before int, r *request) missing {
	units := before + r.units
	m := missing{units: units - p.ceiling(r.Overcommit) + p.taken(), names: units - p.leasesLeft()}
	if before == 0 {
		m.units = min(m.units, p.taken())
	}
	if p.counted() {
		m.names = m.units
	}
	return m
}

// most returns the greater number, and whether it is that of the names.
func (m missing) most() (n int, names bool) { return max(m.units, m.names), m.names >= m.units }

// lockDelayOf returns the lock delay whose end frees the last of what is missing; nil if leases must
// end, too.
func (p *pool) lockDelayOf(m missing) *lock {
	if n, _ := m.most(); n > p.locked {
		return nil
	}
	for _, l := range p.locks {
		if m.units -= l.Units; l.slot.reserved == nil {
			m.names -= l.Units
		}
		if n, _ := m.most(); n <= 0 {
			return l
		}
	}
	return nil
}

// leasesFor returns how many leases r gets.
func (p *pool) leasesFor(r *request) int {
	if p.counted() && (r.Weighted || !r.saysCount()) {
		return 1
	}
	return r.units
}

// over reports whether p is retired and drained.
func (p *pool) over() bool { return p.retired && p.inUse() == 0 }

// tooMany is the error of a request for more units than p's capacity.
func (p *pool) tooMany(units int) error {
	return fmt.Errorf("%w: %d asked for, %d there", ErrTooMany, units, p.Capacity())
}

// neverServes returns why p can never serve r; nil if it can.
func (p *pool) neverServes(r *request) error {
	switch {
	case p.retired:
		return ErrUnknownType
	case p.hasNoCost(r.Request):
		return ErrNoCost
	case r.units > p.Capacity():
		return p.tooMany(r.units)
	case r.Name != "" && (p.counted() || r.units != 1 || r.Key != "" || r.Coalesce != 0):
		return ErrOneName
	case r.Name != "" && (r.slot == nil || r.slot.pool != p):
		return ErrNotInPool
	case p.leasesFor(r) > MaxCapacity:
		return fmt.Errorf("%w: %d leases of one unit asked for, and a request gets %d at the most", ErrTooMany, p.leasesFor(r), MaxCapacity)
	case r.Overcommit && !p.counted():
		return ErrNamesOvercommit
	case r.Overcommit && p.Overcommit == 0:
		return ErrNoOvercommit
	}
	return nil
}
