package pool

import (
	"slices"
	"time"
)

// Reconfigure makes configs what the server has, from now on. If there is
// anything wrong with them, it says so and changes nothing.
//
//   - What is free, waits and is held stays so, under the new settings. A new
//     pace counts from the last grant. A new maximum of the TTL holds for a
//     lease from its next renewal on.
//   - A name that is taken out while it is held drains: it is in use until its
//     lease ends, then it is not granted again. Releasing it stays without
//     error. One that is put into another pool meanwhile is granted there when
//     it is free.
//   - What was reported of the leases of a pool, and the limit that came of it, stay
//     if its type is taken out and put back.
//   - Those that wait for a pool that is gone are dropped with [ErrUnknownType],
//     those that want more than there is now with [ErrTooMany], and those that may
//     exceed a limit that nobody may exceed any longer with [ErrNoOvercommit].
func (s *Set) Reconfigure(now time.Duration, configs []Config) error {
	if err := Check(configs); err != nil {
		return err
	}
	s.Advance(now)
	s.configure(configs)
	s.serve()
	return nil
}

// configure makes configs, which are valid, what g has.
func (g *ledger) configure(configs []Config) {
	before := g.pools
	for _, p := range before {
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
		g.dismiss(p)
		g.touch(p)
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

// refill makes the stock of p the names that are p's and nobody holds. Those
// that were free before stay first.
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

// dismiss drops the waiters that p will never serve.
func (g *ledger) dismiss(p *pool) {
	for _, r := range slices.Clone(p.queue) {
		if err := p.never(r); err != nil {
			g.drop(r, err)
		}
	}
}
