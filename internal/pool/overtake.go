package pool

import (
	"math"
	"math/big"
	"slices"
)

// Lookahead is how many of the waiters that could be next are looked at for one that fits, so that
// a grant costs about the same however many wait. Those behind them overtake nobody.
const Lookahead = 50

// bound returns how many units may overtake a waiter, in total.
func (p *pool) bound() int {
	if p.Overtake == nil {
		return p.Capacity()
	}
	units := new(big.Int).Mul(big.NewInt(p.Overtake.billionths), big.NewInt(int64(p.Capacity())))
	return int(units.Div(units, big.NewInt(billion)).Int64())
}

// mayOvertake returns how many more units of p may overtake r, a candidate that does not fit. Nobody
// overtakes a request that may exceed the limit: it is urgent, and so are those before it.
func (p *pool) mayOvertake(r *request, bound int) int {
	switch {
	case r.Overcommit || r.several() && p.keptFor(r):
		return 0
	case r.several():
		return math.MaxInt
	}
	return max(0, bound-r.overtaken)
}

// nextGrant returns the candidate that is granted leases once pace and pause allow it, and the
// request of its group whose turn it is; nil if none is. It is the first that fits, unless those
// before it must not be overtaken by that many units. While a candidate that would fit is away,
// nobody overtakes it. Of a request of several pools it returns the seat in p.
func (g *ledger) nextGrant(p *pool) (r, turn *request) {
	if p.free(false) <= 0 && p.taken() > 0 && !(len(p.next) > 0 && p.next[0].Overcommit) {
		return nil, nil // nobody fits
	}
	kept, bound, looked := p.keptForFirst(), p.bound(), 0
	left := math.MaxInt
	for _, c := range p.candidates() {
		if kept != nil && ahead(kept, c) {
			return nil, nil
		}
		turn := c.turn()
		switch {
		case turn != nil && turn.units <= left && turn.fits() && (!c.several() || g.mayGoElsewhere(p, c)):
			return c, turn
		case p.holdsBack(c):
			return nil, nil
		}
		looked++
		if !c.several() {
			left = min(left, p.mayOvertake(c, bound))
		}
		if left == 0 || looked == Lookahead {
			break
		}
	}
	return nil, nil
}

// isNext reports whether r, which is queued or may be, is granted by p as soon as it fits: nobody is
// ahead of it who fits, or whom it must not overtake. The pace and pauses are not considered, nor are
// the other pools of r.
func (p *pool) isNext(r *request) bool {
	if k := p.keyOf(r); k.busy(r) || k != nil && k.firstAhead(r) != nil {
		return false
	}
	return p.lets(r)
}

// lets is isNext without the key of r.
func (p *pool) lets(r *request) bool {
	if kept := p.keptForFirst(); kept != nil && ahead(kept, r) {
		return false
	}
	bound, looked := p.bound(), 0
	for _, c := range p.candidates() {
		if !ahead(c, r) { // as nearly always at once
			break
		}
		if looked++; looked == Lookahead || !c.several() && (p.mayOvertake(c, bound) < r.units || p.holdsBack(c)) {
			return false
		}
	}
	return true
}

// overtake counts what r gets for those before it, which it goes ahead of, and returns how many these
// are. The units of its first pool may be those of a follower.
func (g *ledger) overtake(r *request, units int) (overtook int) {
	var before []*pool // of r
	for seat := range r.allSeats {
		if seat != r {
			units = seat.units
		}
		for _, c := range seat.pool.next {
			if !ahead(c, seat) {
				break
			}
			c.overtaken += units
			g.noteWaiter(Overtaken, c)
			overtook++
		}
		for _, c := range seat.pool.classes {
			if !slices.ContainsFunc(before, func(p *pool) bool { return slices.Contains(c.pools, p) }) {
				for q := range c.groups {
					overtook += q.countBefore(seat)
				}
			}
			g.pass(c, seat.pool, seat, units)
		}
		before = append(before, seat.pool)
	}
	return overtook
}

// span is how many units may go before a request.
type span struct{ least, most int }

// span returns how many units may go before r, which is or would be at place, if the requests ahead
// of it want before units. At least go those that it must not overtake, or that it cannot, since
// they need no more than it does. At most go all ahead of it, and what may overtake it.
func (p *pool) span(r *request, place, before int) span {
	s := span{before, before}
	if p.wanted == len(p.queue) && r.units == 1 && p.several == 0 || place > Lookahead {
		return s
	}
	bound := p.bound()
	s.least = r.units
	for i := place - 2; i >= 0; i-- {
		switch other := p.queue[i]; {
		case other.keptOut():
		case other.units <= r.units && !other.several() || p.mayOvertake(other, bound) < s.least || p.holdsBack(other):
			s.least += other.units
		}
	}
	s.least -= r.units
	if p.fits(r) && !r.several() {
		return s
	}
	smaller := 0
	for _, other := range p.queue[place-1 : min(Lookahead, len(p.queue))] {
		if (other.units < r.units || r.several()) && other.whole() != r.whole() && !other.keptOut() {
			smaller += other.units
		}
	}
	s.most += min(smaller, p.mayOvertake(r, bound))
	return s
}

// passOn counts for the followers of r, which leaves the queue, what overtook r: it went ahead of
// them, too.
func (g *ledger) passOn(r *request) {
	for _, f := range r.followers {
		if f.overtaken < r.overtaken {
			f.overtaken = r.overtaken
			g.noteWaiter(Overtaken, f)
		}
	}
}
