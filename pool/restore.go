package pool

import (
	"cmp"
	"fmt"
	"slices"
)

// New returns the pools of configs with what snapshot holds. Leases that can be
// renewed get their full TTL, or what a provisional one has, from the clock of
// the snapshot on; a pending release keeps its time, and so does the end of a
// lease that was broken. A lease whose name or type is configured no more stays
// held until it ends. A pace counts from the newest lease.
//
// An error says everything that is wrong with configs, or what in the snapshot
// contradicts itself.
func New(configs []Config, snapshot Snapshot) (*Set, error) {
	if err := checkAll(configs); err != nil {
		return nil, err
	}
	s := &Set{newLedger(snapshot.Clock, snapshot.Generation)}
	if err := s.restore(snapshot); err != nil {
		return nil, fmt.Errorf("restore leases: %w", err)
	}
	s.configure(configs)
	s.serve()
	return s, nil
}

// Snapshot returns what must outlive the server: the sum of the changes so far.
func (s *Set) Snapshot() Snapshot {
	snap := Snapshot{Clock: s.now, Generation: s.generation, Ended: slices.Clone(s.ended.order)}
	for _, p := range s.pools {
		snap.Leases = append(snap.Leases, p.leases()...)
	}
	return snap
}

// restore takes up what snapshot holds, as if nothing was configured.
func (g *ledger) restore(snapshot Snapshot) error {
	// A snapshot may be in any order: its maker may have iterated over a map.
	leases := slices.SortedFunc(slices.Values(snapshot.Leases), func(a, b Lease) int {
		return cmp.Compare(a.Generation, b.Generation)
	})
	for i, l := range leases {
		switch {
		case l.Name == "" || l.Type == "" || l.TTL <= 0 || l.Generation == 0:
			return fmt.Errorf("lease %+v is incomplete", l)
		case i > 0 && leases[i-1].Generation == l.Generation:
			return fmt.Errorf("two leases have generation %d", l.Generation)
		case g.slots[l.Name] != nil && g.slots[l.Name].lease != nil:
			return fmt.Errorf("name %q is held twice", l.Name)
		}
		g.generation = max(g.generation, l.Generation)
		g.hold(l)
	}
	ended := slices.SortedFunc(slices.Values(snapshot.Ended), func(a, b Ended) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.ID, b.ID))
	})
	for _, e := range ended {
		if g.ended.has(e.ID) || g.requests[e.ID] != nil {
			return fmt.Errorf("request %q is there twice", e.ID)
		}
		g.ended.push(e)
	}
	return nil
}

// hold restores one lease.
func (g *ledger) hold(l Lease) {
	p, isNew := g.pool(l.Type)
	if isNew {
		g.pools = append(g.pools, p)
	}
	p.rhythm.resume(l, g.now)
	switch {
	case l.Broken != "": // what renewals no longer move, a restart does not either
	case l.Provisional:
		l.Expires = later(g.now, ProvisionalTTL)
	default:
		l.Expires = later(g.now, l.TTL)
	}
	var r *request
	if l.RequestID != "" {
		if r = g.requests[l.RequestID]; r == nil {
			r = &request{
				Request: Request{ID: l.RequestID, Type: l.Type, Count: l.Count, Owner: l.Owner, TTL: l.TTL},
				pool:    p,
			}
			g.requests[r.ID] = r
		}
	}
	g.install(l, g.slot(l.Name), p, r)
}
