package pool

import (
	"cmp"
	"fmt"
)

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
	if p.counted() && p.leasesLeft() > 0 {
		return units
	}
	return min(units, p.leasesLeft())
}

// leasesLeft returns how many leases can be granted beside those that are held.
func (p *pool) leasesLeft() int {
	if p.counted() {
		return MaxCapacity - p.held.Len() - len(p.locks)
	}
	return len(p.stock)
}

// hasRoom reports whether units may be taken beside others. A request above the limit may have them
// alone: otherwise it would never be granted, and block the queue.
func (p *pool) hasRoom(units, others int, overcommit bool) bool {
	return others+units <= p.ceiling(overcommit) || others == 0 && units <= p.Capacity()
}

// hasRoomFor reports whether there is room for so many leases with so many units, beside what is in use.
func (p *pool) hasRoomFor(units, leases int, overcommit bool) bool {
	return leases <= p.leasesLeft() && p.hasRoom(units, p.taken(), overcommit)
}

// fits reports whether there is room for r beside what is in use.
func (p *pool) fits(r *request) bool { return p.hasRoomFor(r.units, p.leasesFor(r), r.Overcommit) }

// lacks returns how many units must come free before the request whose turn is next fits; zero
// if it fits, or if there is no such request.
func (p *pool) lacks() int {
	next, ok := p.first()
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
	case p.counted() && p.leasesFor(r) > maxMadeUp:
		return fmt.Errorf("%w: %d leases of one unit asked for, and a request gets %d at the most", ErrTooMany, p.leasesFor(r), maxMadeUp)
	case r.Overcommit && !p.counted():
		return ErrNamesOvercommit
	case r.Overcommit && p.Overcommit == 0:
		return ErrNoOvercommit
	}
	return nil
}
