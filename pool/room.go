package pool

import (
	"cmp"
	"fmt"
)

// inUse returns how many units are held, or withheld by the lock delay.
func (p *pool) inUse() int { return p.heldUnits + p.locked }

// ceiling returns how many units may be in use after a grant.
func (p *pool) ceiling(overcommit bool) int {
	if overcommit {
		return p.limit.now() + p.Overcommit
	}
	return p.limit.now()
}

// free returns how many units can be granted. Units in use count even if they are no longer
// configured, so the result may be negative.
func (p *pool) free(overcommit bool) int {
	units := p.ceiling(overcommit) - p.inUse()
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

// hasRoom reports whether units may be in use beside inUse others. A request above the limit
// may be in use alone: otherwise it would never be granted, and block the queue.
func (p *pool) hasRoom(units, inUse int, overcommit bool) bool {
	return inUse+units <= p.ceiling(overcommit) || inUse == 0 && units <= p.Capacity()
}

// fits reports whether there is room for r beside what is in use.
func (p *pool) fits(r *request) bool {
	return p.leasesFor(r) <= p.leasesLeft() && p.hasRoom(r.units, p.inUse(), r.Overcommit)
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
	return max(1, p.missing(0, next))
}

// missing returns how many units must come free before r fits, if the requests ahead of r want
// before units; zero or less if r fits. If r is next, it fits at the latest when nothing is in
// use: see hasRoom.
func (p *pool) missing(before int, r *request) int {
	units := before + r.units - p.free(r.Overcommit)
	if before == 0 {
		return min(units, p.inUse())
	}
	return units
}

// lockDelayOf returns the lock delay whose end frees the last of the missing units; nil if
// leases must end, too.
func (p *pool) lockDelayOf(missing int) *lock {
	if missing > p.locked {
		return nil
	}
	for _, l := range p.locks {
		if missing -= l.Units; missing <= 0 {
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
	case r.units > p.Capacity():
		return p.tooMany(r.units)
	case p.leasesFor(r) > MaxCapacity:
		return fmt.Errorf("%w: %d leases of one unit asked for, and a request gets %d at the most", ErrTooMany, p.leasesFor(r), MaxCapacity)
	case r.Overcommit && !p.counted():
		return ErrNamesOvercommit
	case r.Overcommit && p.Overcommit == 0:
		return ErrNoOvercommit
	}
	return nil
}
