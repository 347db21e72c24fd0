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
//   - Waiters that their pool can no longer serve are dropped: with [ErrUnknownType] if the pool
//     is gone, with [ErrTooMany] if they want more units than it has now, and with
//     [ErrNoOvercommit] if they may exceed the limit and the pool no longer has an overcommit.
//     Those that have joined a run wait for its result first.
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
	var names []string // that were configured
	for _, p := range before {
		names = append(names, p.Names...)
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
		pools = append(pools, p)
		for _, name := range p.Names {
			g.slot(name).pool = p
		}
	}
	for _, p := range before {
		if p.retired {
			pools = append(pools, p)
		}
	}
	g.pools = pools
	for _, p := range g.pools {
		g.refill(p)
		for _, r := range slices.Clone(p.queue) {
			g.dismiss(r)
		}
		g.touch(p)
	}
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

// refill sets the stock of p to those of p's names that are free. Names that were free before
// stay first.
func (g *ledger) refill(p *pool) {
	p.stock = slices.DeleteFunc(p.stock, func(name string) bool { return g.slots[name].pool != p })
	free := make(map[string]bool, len(p.stock))
	for _, name := range p.stock {
		free[name] = true
	}
	for _, name := range p.Names {
		if g.slots[name].free() && !free[name] {
			p.stock = append(p.stock, name)
		}
	}
}
