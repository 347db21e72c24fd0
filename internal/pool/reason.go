package pool

import (
	"cmp"
	"strconv"

	"github.com/leasectl/leasectl/leaseapi"
)

// reason returns why r waits for p, as [WaiterStatus] has it, if the requests ahead of r want
// before units.
func (g *ledger) reason(p *pool, before int, r *request) string {
	if c := g.circleOf(r); c != (circle{}) {
		return c.reason()
	}
	if why := g.whyShut(p, r); why != "" {
		return why
	}
	if w := r.whole(); w.shut || w != r && w.key != nil && (w.key.busy(w) || w.key.firstAhead(w) != nil) {
		return g.waitsElsewhere(p, r)
	}
	if why := g.reasonNow(p, before, r); why != "" || r.away() {
		return why
	}
	return g.waitsElsewhere(p, r)
}

// whyShut returns the reason of r for what may last in p: see isShut. It is empty if there is no such
// thing.
func (g *ledger) whyShut(p *pool, r *request) string {
	pause, paused := g.pauseOf(p)
	switch {
	case paused && !r.Overcommit:
		return leaseapi.WaitPaused + ": " + pause.Reason
	case r.slot != nil && !r.slot.free():
		return r.slot.whyNotFree()
	case p.tooFewLeft(r):
		return leaseapi.WantsMore(r.units, len(p.reserved), p.Capacity())
	case r.units > p.Capacity():
		return leaseapi.WaitWants + " " + strconv.Itoa(r.units)
	}
	return ""
}

// whyNotFree returns the reason of a waiter that wants the name of sl, which is not free.
func (sl *slot) whyNotFree() string {
	switch {
	case sl.reserved != nil:
		token, owner := SplitOwner(sl.reserved.Owner)
		return leaseapi.NameReserved(sl.name, cmp.Or(owner, token), sl.reserved.Reason)
	case sl.lease == nil:
		return leaseapi.WaitLocked + " " + sl.name
	}
	return leaseapi.NameHeld(sl.name, "")
}

// reasonNow returns why r waits for p as p is now, with no regard to its other pools. It is empty if r
// could be granted there, or only its client is away.
func (g *ledger) reasonNow(p *pool, before int, r *request) string {
	switch k := p.keys[r.Key]; {
	case k.busy(r) && len(k.leases) == 0:
		return leaseapi.WaitLocked + " " + k.lock.Name
	case k.busy(r):
		return leaseapi.WaitKey
	case k.behindWriter(r):
		return leaseapi.WaitWriter
	}
	full, lock := p.free(r.Overcommit) <= 0, p.lockDelayOf(p.missing(before, r))
	switch {
	case full && lock != nil:
		return leaseapi.WaitLocked + " " + lock.Name
	case full:
		return leaseapi.WaitFull
	}
	first, ok := p.first()
	away, fits, next := r.away(), p.fits(r), p.isNext(r)
	if !away && (!ok || ahead(r, first)) {
		first, ok = r, true // r is a prospect, or another pool has no room for it
	}
	switch {
	case g.due(p, r) > g.now && (!ok || p.fits(first) || next && fits):
		return leaseapi.WaitPaced
	case (away || next) && !fits && lock != nil:
		return leaseapi.WaitLocked + " " + lock.Name
	case (away || next) && !fits:
		return leaseapi.WaitWants + " " + strconv.Itoa(r.units)
	case away, next && fits && r.several():
		return ""
	}
	return leaseapi.WaitBehind
}

// waitsElsewhere says for which pool beside p r waits, and why it waits there: first of all for one that
// shuts it out.
func (g *ledger) waitsElsewhere(p *pool, r *request) string {
	for seat := range r.allSeats {
		if why := g.whyShut(seat.pool, seat); seat.pool != p && why != "" {
			return leaseapi.WaitsFor(seat.Type, why)
		}
	}
	for seat := range r.allSeats {
		q := seat.pool
		if q != p && (!q.fits(seat) || !q.isNext(seat) || q.due() > g.now) {
			return leaseapi.WaitsFor(q.Type, g.reasonNow(q, q.before(q.queue.search(seat)+1), seat))
		}
	}
	return leaseapi.WaitBehind
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
