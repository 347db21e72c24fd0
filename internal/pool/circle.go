package pool

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// mostInCircle is how many leases, and how many waiters of an owner, are looked at for a circle: a status
// must not cost more in a large pool.
const mostInCircle = 100

// circle says that a request waits for leases of other, which waits for leases of its owner in the pool of
// a type. The zero circle is none.
type circle struct{ other, typ string }

// circleOf returns the circle of r, which waits: each lease whose end would let it go is its own owner's
// or that of one other, and the same is so for a waiter of that one.
func (g *ledger) circleOf(r *request) circle {
	w := r.whole()
	if !g.waitsForLeases(w) {
		return circle{}
	}
	for seat := range w.allSeats {
		if other := seat.pool.waitsFor(seat, w.Owner); other != "" {
			if typ := g.waitsBack(other, w.Owner); typ != "" {
				return circle{other, typ}
			}
		}
	}
	return circle{}
}

// waitsForLeases reports whether r is in the queue, and no operator keeps it out.
func (g *ledger) waitsForLeases(r *request) bool {
	return r.leader == nil && !r.shut && (r.Overcommit || !g.paused(r.pool))
}

// waitsBack returns the type of the pool in which an owner waits for leases of another; empty if it does
// not. If several of its requests do, it is that of the first to come.
func (g *ledger) waitsBack(owner, other string) (typ string) {
	var first *request
	all := g.waitersOf[owner]
	for _, w := range all[:min(len(all), mostInCircle)] {
		if !w.active || !g.waitsForLeases(w) || first != nil && w.arrival > first.arrival {
			continue
		}
		for seat := range w.allSeats {
			if seat.pool.waitsFor(seat, owner) == other {
				first, typ = w, seat.pool.Type
				break
			}
		}
	}
	return typ
}

// waitsFor returns the one other owner that, beside owner, has all leases whose end would let r go in p;
// empty if there is none, or if something else lets it go there, as time or an operator may.
func (p *pool) waitsFor(r *request, owner string) (other string) {
	var leases []*lease
	switch k := p.keyOf(r); {
	case owner == "" || p.fits(r) && !k.busy(r):
		return ""
	case r.slot != nil && k.busy(r):
		if leases = []*lease{r.slot.lease}; r.slot.lease == nil || r.slot.reserved != nil {
			return ""
		}
	case k.busy(r):
		leases = k.leases
	case p.locked == 0 && len(p.reserved) == 0:
		leases = p.held.items
	}
	if len(leases) > mostInCircle {
		return ""
	}
	for _, l := range leases {
		switch {
		case l.ReleaseAt > 0 || l.Broken != "": // it ends by itself
			return ""
		case l.Owner == owner:
		case l.Owner == "" || other != "" && l.Owner != other:
			return ""
		default:
			other = l.Owner
		}
	}
	return other
}

// Circle returns why the request id waits, as [WaiterStatus] has it, if it and another owner wait for each
// other: neither goes unless one of them gives up. It returns false if there is no such owner.
func (s *Set) Circle(now time.Duration, id string) (why leaseapi.WaitReason, ok bool) {
	s.Advance(now)
	r := s.requests.get(id)
	if r == nil || !r.queued() {
		return why, false
	}
	c := s.circleOf(r)
	if c == (circle{}) {
		return why, false
	}
	return c.reason(), true
}

// reason returns why r waits, as [WaiterStatus] has it.
func (c circle) reason() leaseapi.WaitReason {
	why := waitsOn(leaseapi.WaitCircle, c.other)
	why.Type = c.typ
	return why
}
