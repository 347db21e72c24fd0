package pool

import (
	"slices"
	"sort"
	"time"
)

// lockDelay returns how long the name of l is not granted again if its holder does not release
// it. The pool that has the name now decides, or the pool of l if none has it.
func (l *lease) lockDelay() time.Duration {
	if l.slot.pool != nil {
		return l.slot.pool.LockDelay
	}
	return l.pool.LockDelay
}

// free puts the name of sl into the stock of its pool. A name in no pool is recalled.
func (g *ledger) free(sl *slot) {
	if sl.pool == nil {
		g.recall(sl)
		return
	}
	sl.pool.stock = append(sl.pool.stock, sl.name)
	g.touch(sl.pool)
}

// recall remembers how the last lease of a free name in no pool ended, and forgets the oldest
// such name if there are too many.
func (g *ledger) recall(sl *slot) {
	forgotten := g.recalled.push(sl.name)
	if old := g.slots[forgotten]; old != nil && old.pool == nil && old.free() {
		delete(g.slots, forgotten)
	}
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
	p.outlook.invalidate()
	if k := g.holdKey(p, l.Key); k != nil && (k.lock == nil || k.lock.Until <= l.Until) {
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
	l.pool.outlook.invalidate()
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
