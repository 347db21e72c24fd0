package pool

import (
	"slices"
	"time"
)

// Reconfigure makes configs the configuration from now on. If it returns the error of [Check],
// nothing has changed.
//
//   - Free names, waiters and leases stay, under the new settings. A new pace counts from the
//     last grant. A new MaxTTL holds for a lease from its next renewal on.
//   - A name that is removed while it is held drains: it is in use until its lease ends, and is
//     not granted again. Releasing it is no error. If it is put into another pool meanwhile, it
//     is granted there when it is free.
//   - The reports on the leases of a pool, and the limit that they led to, stay if its type is
//     removed and put back.
//   - The units that a pool computed for a waiter stay. But a waiter that says no count wants one name
//     if its pool has names now.
//   - Waiters that their pool can no longer serve are dropped: with [ErrUnknownType] if the pool
//     is gone, with [ErrTooMany] if they want more units than it has now, with [ErrNoCost] if they
//     say a number of items and it has names now, with [ErrNotInPool] if they want a name that it no
//     longer has, and with [ErrNoOvercommit] if they may exceed the limit and the pool no longer has
//     an overcommit. Those that have joined a run wait for its result first.
func (s *Set) Reconfigure(now time.Duration, configs []Config) error {
	if err := Check(configs); err != nil {
		return err
	}
	s.Advance(now)
	s.configure(configs)
	s.serve()
	return nil
}

// configure applies configs, which are valid.
func (g *ledger) configure(configs []Config) {
	before := g.pools
	readmit := g.emptyClasses()
	var names []string // that were configured
	var reserved []*slot
	for _, p := range before {
		reserved = append(reserved, p.reserved...)
		names = append(names, p.Names...)
		for _, r := range p.queue {
			if r.slot != nil && r.slot.pool == nil && r.key.queue[0] == r {
				names = append(names, r.Name) // of a snapshot, and perhaps no longer configured
			}
		}
		p.reserved = nil
		for _, name := range p.Names {
			g.slots[name].pool = nil
		}
		p.Config, p.retired = Config{Type: p.Type}, true
		p.limit.configure(p.Config)
	}
	var pools []*pool // those of configs come first
	for _, c := range configs {
		p := g.pool(c.Type)
		p.Config, p.retired = c.withDefaults(), false
		p.Names = slices.Clone(c.Names) // the next configure reads them
		p.limit.configure(p.Config)
		p.outlook.past.usual = p.Hold
		pools = append(pools, p)
		for _, name := range p.Names {
			g.slot(name).pool = p
		}
		p.findReserved(g)
	}
	for _, p := range before {
		if p.retired {
			pools = append(pools, p)
		}
	}
	g.pools = pools
	g.noteOutOfPools(reserved)
	for _, p := range g.pools {
		for _, r := range p.waiters() {
			g.recount(r)
		}
	}
	for _, p := range g.pools {
		g.refill(p)
		for _, r := range slices.Clone(p.queue) {
			g.dismiss(r)
		}
		g.reopen(p)
		g.touch(p)
	}
	readmit()
	for _, name := range names { // no stock has those that were removed
		if sl := g.slots[name]; sl != nil && sl.pool == nil && sl.free() {
			g.recall(sl)
		}
	}
	g.pools = slices.DeleteFunc(g.pools, func(p *pool) bool {
		if !p.over() || p.limit.reports.Type != "" {
			return false
		}
		delete(g.types, p.Type)
		if p.pacing.Count > 0 {
			g.note(Paced).Pacing = &Pacing{Type: p.Type}
		}
		return true
	})
}

// emptyClasses takes those that wait for several pools out of their classes, since these depend on the
// configuration. readmit brings back those that are there still and that nothing keeps out.
func (g *ledger) emptyClasses() (readmit func()) {
	var out []*request
	for _, p := range g.pools {
		for _, r := range p.queue {
			if r.main == nil && r.class != nil {
				g.unadmit(r)
				out = append(out, r)
			}
		}
	}
	return func() {
		for _, r := range out {
			if r.pool.queue.has(r) && r.class == nil && !r.shut && (r.key == nil || slices.Contains(r.key.offered, r)) {
				g.admit(r)
			}
		}
	}
}

// recount makes r, which waits and says no count, want one name of each of its pools that is a listed
// one now: a counted pool may have computed more units for it, which a client does not expect to be
// names.
func (g *ledger) recount(r *request) {
	changed := false
	for seat := range r.allSeats {
		p := seat.pool
		if p.retired || p.counted() || seat.saysCount() || seat.units == 1 {
			continue
		}
		if r.leader == nil { // it stands in the queue
			p.wanted += 1 - seat.units
		}
		seat.units, changed = 1, true
	}
	if changed {
		g.noteWaiter(Recounted, r)
	}
}
