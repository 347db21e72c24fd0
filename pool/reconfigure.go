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
//   - Those that wait for a pool that is gone are dropped with [ErrUnknownType],
//     and those that want more than there is now with [ErrTooMany].
func (s *Set) Reconfigure(now time.Duration, configs []Config) error {
	if err := checkAll(configs); err != nil {
		return err
	}
	s.Advance(now)
	s.configure(configs)
	s.serve()
	return nil
}

// configure makes configs, which are valid, what s has.
func (s *Set) configure(configs []Config) {
	before := s.pools
	for _, p := range before {
		for _, name := range p.Names {
			s.slots[name].pool = nil
		}
		p.Config, p.retired = Config{Type: p.Type}, true
	}
	s.pools = nil
	for _, c := range configs {
		p := s.types[c.Type]
		if p == nil {
			p = s.newPool(c.Type)
		}
		p.Config, p.retired = c.withDefaults(), false
		p.Names = slices.Clone(c.Names) // the next configure reads them
		s.pools = append(s.pools, p)
		for _, name := range p.Names {
			s.slot(name).pool = p
		}
	}
	for _, p := range before {
		if p.retired {
			s.pools = append(s.pools, p)
		}
	}
	for _, p := range s.pools {
		s.refill(p)
		s.dismiss(p)
		s.touch(p)
	}
	s.pools = slices.DeleteFunc(s.pools, func(p *pool) bool {
		over := p.retired && p.held.Len() == 0
		if over {
			delete(s.types, p.Type)
		}
		return over
	})
}

// refill makes the free names those that are p's and nobody holds. Those that
// were free before stay first.
func (s *Set) refill(p *pool) {
	p.free = slices.DeleteFunc(p.free, func(sl *slot) bool { return sl.pool != p })
	free := make(map[*slot]bool, len(p.free))
	for _, sl := range p.free {
		free[sl] = true
	}
	for _, name := range p.Names {
		if sl := s.slots[name]; sl.lease == nil && !free[sl] {
			p.free = append(p.free, sl)
		}
	}
}

// dismiss drops the waiters that p will never serve.
func (s *Set) dismiss(p *pool) {
	for _, r := range slices.Clone(p.queue) {
		switch {
		case p.retired:
			s.drop(r, ErrUnknownType)
		case r.Count > p.capacity():
			s.drop(r, p.tooMany(r.Count))
		}
	}
}

// newPool adds a pool without names. Its caller puts it among s.pools.
func (s *Set) newPool(typ string) *pool {
	p := &pool{
		Config: Config{Type: typ},
		held: ordered[*lease]{
			less: func(a, b *lease) bool { return a.Generation < b.Generation },
			pos:  func(l *lease) *int { return &l.pos },
		},
		there: ordered[*request]{
			less: func(a, b *request) bool { return a.arrival < b.arrival },
			pos:  func(r *request) *int { return &r.there },
		},
	}
	p.timer.on = p
	s.types[typ] = p
	return p
}

// slot returns the slot of name, which may be new.
func (s *Set) slot(name string) *slot {
	sl := s.slots[name]
	if sl == nil {
		sl = &slot{name: name}
		s.slots[name] = sl
	}
	return sl
}
