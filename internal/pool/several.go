package pool

import (
	"cmp"
	"fmt"
	"math/bits"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// A request of several pools has a seat in the queue of each: the request itself is its seat in the
// pool of its first type. The other seats are requests, too, which only the queue of their pool
// knows. Everything but their pool, their units and their position is that of the request.

// overtakenBySeveral is how many times as much may overtake a request of several pools, which must
// wait until all of them have room at once. What overtakes it in a pool counts as a part of what may
// overtake any other waiter there, and the parts are added.
const overtakenBySeveral = 4

// JoinAlso returns [Ask.Also] for a request that asks for those types beside its first one.
func JoinAlso(also []leaseapi.Also) string {
	parts := make([]string, len(also))
	for i, a := range also {
		parts[i] = a.String()
	}
	return strings.Join(parts, "\n")
}

// Others is the reverse of [JoinAlso].
func (a Ask) Others() []leaseapi.Also {
	if a.Also == "" {
		return nil
	}
	var also []leaseapi.Also
	for line := range strings.SplitSeq(a.Also, "\n") {
		part, err := leaseapi.ParseAlso(line)
		if err != nil { // JoinAlso did not write it
			part = leaseapi.Also{Type: line}
		}
		also = append(also, part)
	}
	return also
}

// Types returns all types that the request asks for, the first one first.
func (r *Request) Types() []string {
	types := []string{r.Type}
	for _, a := range r.Others() {
		types = append(types, a.Type)
	}
	return types
}

// UnknownTypesError is the [ErrUnknownType] of a request of several pools.
type UnknownTypesError struct{ Types []string }

func (e *UnknownTypesError) Error() string {
	return fmt.Sprintf("there are no pools of these types: %q", e.Types)
}

// Is makes the error an [ErrUnknownType].
func (e *UnknownTypesError) Is(target error) bool { return target == ErrUnknownType }

// several reports whether r is a request of several pools, or a seat of one.
func (r *request) several() bool { return r.main != nil || len(r.seats) > 0 }

// whole returns the request that r is a seat of: mostly r itself.
func (r *request) whole() *request {
	if r.main != nil {
		return r.main
	}
	return r
}

// allSeats yields all seats of r, the one in its first pool first.
func (r *request) allSeats(yield func(*request) bool) {
	w := r.whole()
	if !yield(w) {
		return
	}
	for _, seat := range w.seats {
		if !yield(seat) {
			return
		}
	}
}

// addSeat adds the seat of r in the pool of one of its other types, whose units are the pool's
// business if units is zero.
func (r *request) addSeat(p *pool, a leaseapi.Also, units int) (*request, error) {
	seat := &request{pool: p, main: r, arrival: r.arrival, arrived: r.arrived, units: units}
	seat.Request = Request{ID: r.ID, Type: a.Type, Owner: r.Owner, Ask: Ask{Count: a.Count, Weighted: true}}
	if units == 0 {
		var err error
		if seat.units, err = p.unitsOf(seat.Request); err != nil {
			return nil, err
		}
	}
	r.seats = append(r.seats, seat)
	r.passed = make([]int, 1+len(r.seats))
	return seat, nil
}

// unitsElsewhere returns [Waiter.AlsoUnits] of r.
func (r *request) unitsElsewhere() string {
	also := make([]leaseapi.Also, len(r.seats))
	for i, seat := range r.seats {
		also[i] = leaseapi.Also{Type: seat.Type, Count: seat.units}
	}
	return JoinAlso(also)
}

// fits reports whether there is room for r in each of its pools.
func (r *request) fits() bool {
	for seat := range r.allSeats {
		if !seat.pool.fits(seat) {
			return false
		}
	}
	return true
}

// touchAll is touch for all pools of r.
func (g *ledger) touchAll(r *request) {
	for seat := range r.allSeats {
		g.touch(seat.pool)
	}
}

// holdsBack reports whether nobody overtakes c, a candidate of p, since it goes as soon as it can:
// it fits. A request of several pools may still have to wait for its turn, or for the pace, in another
// pool, or for its client, and none of these must stop this pool.
func (p *pool) holdsBack(c *request) bool {
	return !c.several() && p.fits(cmp.Or(c.turn(), c))
}

// mayGoElsewhere reports whether r, which fits everywhere, may be granted as far as the pools beside
// p are concerned: their pace is due, and nobody is ahead of it whom it must not overtake.
func (g *ledger) mayGoElsewhere(p *pool, r *request) bool {
	for seat := range r.allSeats {
		if q := seat.pool; q != p && (q.due() > g.now || !q.lets(seat)) {
			return false
		}
	}
	return true
}

// partOf returns units as a part of bound, in billionths, rounded up; see [request.passed].
func partOf(units, bound int) int {
	hi, lo := bits.Mul64(uint64(units), billion)
	part, rest := bits.Div64(hi, lo, uint64(max(bound, 1)))
	if rest > 0 {
		part++
	}
	return int(part)
}

// unitsOfPart returns the units of a part of bound, rounded down.
func unitsOfPart(part, bound int) int {
	hi, lo := bits.Mul64(uint64(part), uint64(bound))
	units, _ := bits.Div64(hi, lo, billion)
	return int(units)
}

// overtakes returns how many units went ahead of r, in units of p, and how many may in all.
func (p *pool) overtakes(r *request) (overtaken, most int) {
	bound := p.bound()
	if w := r.whole(); w.several() {
		return min(unitsOfPart(w.passedInAll(), bound), overtakenBySeveral*bound), overtakenBySeveral * bound
	}
	return r.overtaken, bound
}
