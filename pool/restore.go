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
	s := &Set{
		now:        snapshot.Clock,
		generation: snapshot.Generation,
		types:      make(map[string]*pool),
		slots:      make(map[string]*slot),
		requests:   make(map[string]*request),
		ended:      tombstones{ids: make(map[string]struct{}), limit: MaxEnded},
		timers:     newTimers(),
	}
	if err := s.restore(snapshot); err != nil {
		return nil, fmt.Errorf("restore leases: %w", err)
	}
	s.configure(configs)
	s.serve()
	return s, nil
}

// restore takes up what snapshot holds, as if nothing was configured.
func (s *Set) restore(snapshot Snapshot) error {
	// Whoever made the snapshot may have iterated over a map.
	leases := slices.SortedFunc(slices.Values(snapshot.Leases), func(a, b Lease) int {
		return cmp.Compare(a.Generation, b.Generation)
	})
	for i, l := range leases {
		switch {
		case l.Name == "" || l.Type == "" || l.TTL <= 0 || l.Generation == 0:
			return fmt.Errorf("lease %+v is incomplete", l)
		case i > 0 && leases[i-1].Generation == l.Generation:
			return fmt.Errorf("two leases have generation %d", l.Generation)
		case s.slots[l.Name] != nil && s.slots[l.Name].lease != nil:
			return fmt.Errorf("name %q is held twice", l.Name)
		}
		s.generation = max(s.generation, l.Generation)
		s.hold(l)
	}
	ended := slices.SortedFunc(slices.Values(snapshot.Ended), func(a, b Ended) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.ID, b.ID))
	})
	for _, e := range ended {
		if s.ended.has(e.ID) || s.requests[e.ID] != nil {
			return fmt.Errorf("request %q is there twice", e.ID)
		}
		s.ended.push(e)
	}
	return nil
}

// hold restores one lease.
func (s *Set) hold(l Lease) {
	p := s.types[l.Type]
	if p == nil {
		p = s.newPool(l.Type)
		s.pools = append(s.pools, p)
	}
	p.rhythm.resume(l, s.now)
	switch {
	case l.Broken != "": // what renewals no longer move, a restart does not either
	case l.Provisional:
		l.Expires = later(s.now, ProvisionalTTL)
	default:
		l.Expires = later(s.now, l.TTL)
	}
	var r *request
	if l.RequestID != "" {
		if r = s.requests[l.RequestID]; r == nil {
			r = &request{
				Request: Request{ID: l.RequestID, Type: l.Type, Count: l.Count, Owner: l.Owner, TTL: l.TTL},
				pool:    p,
			}
			s.requests[r.ID] = r
		}
	}
	s.install(l, s.slot(l.Name), p, r)
}

// install makes l the lease of its name, granted to r if that is still known.
func (s *Set) install(l Lease, sl *slot, p *pool, r *request) {
	held := &lease{Lease: l, slot: sl, pool: p, request: r}
	held.timer.on = held
	sl.lease = held
	p.held.put(held)
	s.held++
	if r != nil {
		r.leases = append(r.leases, held)
	}
	s.schedule(&held.timer, held.Ends())
}
