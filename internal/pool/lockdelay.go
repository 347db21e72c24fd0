package pool

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Locked is a name that nobody holds, but that is not granted yet because of the lock delay of
// its pool. The units and the key of the lease that ended are withheld, too.
type Locked struct {
	Name  string
	Type  string        // of the lease that ended
	Units int           // of it
	Key   string        // of it; may be empty
	Until time.Duration // on the lease clock

	ReadsKey bool // the lease read the key: those that read it, too, may have it meanwhile
}

func compareLocked(a, b Locked) int {
	return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.Name, b.Name))
}

// Locked returns the lock delay that keeps name from being granted; false if none
// does.
func (s *Set) Locked(now time.Duration, name string) (Locked, bool) {
	s.Advance(now)
	sl := s.slots[name]
	if sl == nil || sl.lock == nil {
		return Locked{}, false
	}
	return sl.lock.Locked, true
}

// lock is a name that the lock delay keeps from being granted.
type lock struct {
	Locked
	slot  *slot
	pool  *pool // of the lease that ended
	timer timer
	owner string // whose lease expired, and whose caller's share has the name; empty: nobody's, as after a restart

	ending ending // in pool.outlook
}

// lockDelay returns how long the name of l is not granted again if its holder does not release
// it. The pool that has the name now decides, or the pool of l if none has it.
func (l *lease) lockDelay() time.Duration {
	if l.slot.pool != nil {
		return l.slot.pool.LockDelay
	}
	return l.pool.LockDelay
}

// lock begins the lock delay of a name, after a lease of p.
func (g *ledger) lock(sl *slot, p *pool, l Locked) {
	g.restoreLock(sl, p, l)
	g.note(LockBegun).Locked = &l
}

// restoreLock is lock without a change.
func (g *ledger) restoreLock(sl *slot, p *pool, l Locked) {
	sl.lock = &lock{Locked: l, slot: sl, pool: p}
	sl.lock.timer.on = sl.lock
	p.locked += l.Units
	p.insertLock(sl.lock)
	sl.lock.ending.move(ending{&p.outlook.fixed, l.Until, l.Units})
	if k := g.holdKey(p, l.Key, l.ReadsKey); k != nil && (k.lock == nil || k.lock.Until <= l.Until) {
		k.lock = sl.lock
	}
	g.schedule(&sl.lock.timer, l.Until)
}

// unlock ends a lock delay.
func (g *ledger) unlock(l *lock) {
	g.timers.remove(&l.timer)
	l.slot.lock = nil
	l.pool.locked -= l.Units
	l.pool.removeLock(l)
	l.ending.move(ending{})
	g.use(l.owner, usage{held: -1})
	g.touch(l.pool)
	g.note(LockOver).Locked = &l.Locked
	g.free(l.slot)
	g.freeKey(l.pool, l.Key, nil)
}

// insertLock adds l in the order of the ends, nearly always as the last.
func (p *pool) insertLock(l *lock) {
	i := sort.Search(len(p.locks), func(i int) bool { return p.locks[i].Until > l.Until })
	p.locks = slices.Insert(p.locks, i, l)
}

// removeLock takes out l. At the head, where most locks end, it moves nothing.
func (p *pool) removeLock(l *lock) {
	if p.locks[0] != l {
		i := slices.Index(p.locks, l)
		p.locks = slices.Delete(p.locks, i, i+1)
		return
	}
	p.locks[0] = nil // let go of it
	p.locks = p.locks[1:]
}

// lockDelayOf returns the lock delay whose end frees the last of what is missing; nil if leases must
// end, too.
func (p *pool) lockDelayOf(m missing) *lock {
	if n, _ := m.most(); n > p.locked {
		return nil
	}
	for _, l := range p.locks {
		if m.units -= l.Units; l.slot.reserved == nil {
			m.names -= l.Units
		}
		if n, _ := m.most(); n <= 0 {
			return l
		}
	}
	return nil
}
