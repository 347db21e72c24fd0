package pool

import (
	"cmp"

	"github.com/leasectl/leasectl/leaseapi"
)

// reason returns why r waits for p, as [WaiterStatus] has it, if the requests ahead of r want
// before units.
func (g *ledger) reason(p *pool, before int, r *request) leaseapi.WaitReason {
	if c := g.circleOf(r); c != (circle{}) {
		return c.reason()
	}
	if why := g.whyShut(p, r); why.Kind != "" {
		return why
	}
	if w := r.whole(); w.shut || w != r && w.key != nil && (w.key.busy(w) || w.key.firstAhead(w) != nil) {
		return g.waitsElsewhere(p, r)
	}
	if why := g.reasonNow(p, before, r); why.Kind != "" || r.away() {
		return why
	}
	return g.waitsElsewhere(p, r)
}

// whyShut returns the reason of r for what may last in p: see isShut. There may be none.
func (g *ledger) whyShut(p *pool, r *request) leaseapi.WaitReason {
	pause, paused := g.pauseOf(p)
	switch {
	case paused && !r.Overcommit:
		return leaseapi.WaitReason{Kind: leaseapi.WaitPaused, Text: pause.Reason}
	case r.slot != nil && !r.slot.free():
		return r.slot.whyNotFree()
	case p.tooFewLeft(r):
		return leaseapi.WaitReason{Kind: leaseapi.WaitUnits, Units: r.units, Reserved: len(p.reserved), Capacity: p.Capacity()}
	case r.units > p.Capacity():
		return leaseapi.WaitReason{Kind: leaseapi.WaitUnits, Units: r.units}
	}
	return leaseapi.WaitReason{}
}

// whyNotFree returns the reason of a waiter that wants the name of sl, which is not free.
func (sl *slot) whyNotFree() leaseapi.WaitReason {
	switch {
	case sl.reserved != nil:
		why := waitsOn(leaseapi.WaitReserved, sl.reserved.Owner)
		why.Name, why.Text = sl.name, sl.reserved.Reason
		return why
	case sl.lease == nil:
		return leaseapi.WaitReason{Kind: leaseapi.WaitLocked, Name: sl.name}
	}
	why := waitsOn(leaseapi.WaitName, sl.lease.Owner)
	why.Name = sl.name
	return why
}

// waitsOn returns a reason that is about an owner.
func waitsOn(kind, owner string) leaseapi.WaitReason {
	why := leaseapi.WaitReason{Kind: kind}
	why.Token, why.By = SplitOwner(owner)
	return why
}

// reasonNow returns why r waits for p as p is now, with no regard to its other pools. There is none if r
// could be granted there, or only its client is away.
func (g *ledger) reasonNow(p *pool, before int, r *request) leaseapi.WaitReason {
	switch k := p.keys[r.Key]; {
	case k.busy(r) && len(k.leases) == 0:
		return leaseapi.WaitReason{Kind: leaseapi.WaitLocked, Name: k.lock.Name}
	case k.busy(r):
		return waitsOn(leaseapi.WaitKey, k.leases[0].Owner)
	case k.behindWriter(r):
		return leaseapi.WaitReason{Kind: leaseapi.WaitWriter}
	}
	full, lock := p.free(r.Overcommit) <= 0, p.lockDelayOf(p.missing(before, r))
	switch {
	case full && lock != nil:
		return leaseapi.WaitReason{Kind: leaseapi.WaitLocked, Name: lock.Name}
	case full:
		return leaseapi.WaitReason{Kind: leaseapi.WaitFull}
	}
	first, ok := p.first()
	away, fits, next := r.away(), p.fits(r), p.isNext(r)
	if !away && (!ok || ahead(r, first)) {
		first, ok = r, true // r is a prospect, or another pool has no room for it
	}
	switch {
	case g.due(p, r) > g.now && (!ok || p.fits(first) || next && fits):
		return leaseapi.WaitReason{Kind: leaseapi.WaitPaced}
	case (away || next) && !fits && lock != nil:
		return leaseapi.WaitReason{Kind: leaseapi.WaitLocked, Name: lock.Name}
	case (away || next) && !fits:
		return leaseapi.WaitReason{Kind: leaseapi.WaitUnits, Units: r.units}
	case away, next && fits && r.several():
		return leaseapi.WaitReason{}
	}
	return leaseapi.WaitReason{Kind: leaseapi.WaitBehind}
}

// waitsElsewhere says for which pool beside p r waits, and why it waits there: first of all for one that
// shuts it out.
func (g *ledger) waitsElsewhere(p *pool, r *request) leaseapi.WaitReason {
	for seat := range r.allSeats {
		if why := g.whyShut(seat.pool, seat); seat.pool != p && why.Kind != "" {
			why.Type = seat.Type
			return why
		}
	}
	for seat := range r.allSeats {
		q := seat.pool
		if q != p && (!q.fits(seat) || !q.isNext(seat) || q.due() > g.now) {
			why := g.reasonNow(q, q.before(q.queue.search(seat)+1), seat)
			why.Kind, why.Type = cmp.Or(why.Kind, leaseapi.WaitElsewhere), q.Type
			return why
		}
	}
	return leaseapi.WaitReason{Kind: leaseapi.WaitBehind}
}

// isShut reports whether reservations leave r fewer names than it wants, or, if r is of several
// pools, whether that or something else that may last is so in one of them: it is paused, or smaller
// than what r wants of it. Then r is kept out of all its queues, and out of that of its key, so that it
// holds nobody up.
func (g *ledger) isShut(r *request) bool {
	if !r.several() {
		return r.pool.tooFewLeft(r)
	}
	for seat := range r.allSeats {
		if g.paused(seat.pool) || seat.units > seat.pool.Capacity() || seat.pool.tooFewLeft(seat) {
			return true
		}
	}
	return false
}

// reopen lets the waiters of p in or keeps them out, after a change of a pause, of the reservations, or
// of the configuration: see isShut.
func (g *ledger) reopen(p *pool) {
	for _, r := range p.queue {
		w := r.whole()
		shut := g.isShut(w)
		if shut == w.shut {
			continue
		}
		w.shut = shut
		if shut {
			g.exit(w)
		} else if w.activeCount > 0 {
			g.enter(w)
		}
		g.touchAll(w)
	}
}
