package pool

import (
	"cmp"
	"slices"
)

// key returns the key of a name, which may be new; nil if the name is empty.
func (p *pool) key(name string) *key {
	if name == "" {
		return nil
	}
	k := p.keys[name]
	if k == nil {
		k = newKey(name)
		if p.keys == nil {
			p.keys = make(map[string]*key)
		}
		p.keys[name] = k
	}
	return k
}

func newKey(name string) *key {
	active := ordered[*request]{less: ahead, pos: func(r *request) *int { return &r.keyPos }}
	return &key{name: name, readers: active, writers: active}
}

// keyOf returns the key of r, or that of the name that r wants; nil if r has none, or if nobody
// holds it or waits for it.
func (p *pool) keyOf(r *request) *key {
	if r.slot != nil {
		return r.slot.wanted
	}
	return p.keys[r.Key]
}

// waitedFor returns the key of r, which is put into the queue; it may be new.
func (p *pool) waitedFor(r *request) *key {
	if r.slot == nil {
		return p.key(r.Key)
	}
	if r.slot.wanted == nil {
		r.slot.wanted = newKey(r.Name)
		r.slot.wanted.slot = r.slot
		p.wantedNames++
	}
	return r.slot.wanted
}

// active returns the active waiters of k that read it, or those that write it.
func (k *key) active(reads bool) *ordered[*request] {
	if reads {
		return &k.readers
	}
	return &k.writers
}

// busy reports whether those that hold k keep r out: a writer keeps out everybody, and readers
// keep out writers. A name that is not free keeps out all that want it.
func (k *key) busy(r *request) bool {
	if r.slot != nil {
		return !r.slot.free()
	}
	return k != nil && k.holds > 0 && !(k.read && r.ReadsKey)
}

// firstAhead returns the first active waiter of k that keeps r out, since it is ahead of r: any if r
// writes the key, or else a writer; nil: none is.
func (k *key) firstAhead(r *request) (first *request) {
	if w, ok := k.writers.first(); ok && ahead(w, r) {
		first = w
	}
	if other, ok := k.readers.first(); ok && !r.ReadsKey && ahead(other, cmp.Or(first, r)) {
		first = other
	}
	return first
}

// behindWriter reports whether r, which the holders of k let in, waits behind a writer that they
// keep out.
func (k *key) behindWriter(r *request) bool {
	return k != nil && k.holds > 0 && !k.busy(r) && k.firstAhead(r) != nil
}

// keptOut reports whether k, or the name that r wants, is not free for r.
func (k *key) keptOut(r *request) bool { return k.busy(r) || k.behindWriter(r) }

// enter adds r, which is in the queue, to the candidates for the next grant, or to the active
// waiters of its key.
func (g *ledger) enter(r *request) {
	if r.shut {
		return
	}
	if r.key == nil {
		g.admit(r)
		return
	}
	r.key.active(r.ReadsKey).put(r)
	g.offer(r.pool, r.key)
}

// exit is the counterpart of enter.
func (g *ledger) exit(r *request) {
	if r.key == nil {
		g.unadmit(r)
		return
	}
	r.key.active(r.ReadsKey).remove(r)
	g.offer(r.pool, r.key)
}

// holdKey notes that a lease or a lock delay holds the key of that name, and whether as a reader. It
// returns the key; nil if the name is empty.
func (g *ledger) holdKey(p *pool, name string, reads bool) *key {
	k := p.key(name)
	if k != nil {
		k.holds++
		k.read = reads
		g.offer(p, k)
	}
	return k
}

// freeKey is the counterpart of holdKey, for l, or for a lock delay if l is nil.
func (g *ledger) freeKey(p *pool, name string, l *lease) {
	k := p.key(name)
	if k == nil {
		return
	}
	k.holds--
	if i := slices.Index(k.leases, l); i >= 0 {
		k.leases = slices.Delete(k.leases, i, i+1)
	}
	if k.holds == 0 {
		k.lock = nil
	}
	g.offer(p, k)
	p.forgetKey(k)
}

// forgetKey forgets k if nobody holds it or waits for it.
func (p *pool) forgetKey(k *key) {
	switch {
	case k == nil || k.holds > 0 || len(k.queue) > 0:
	case k.slot != nil:
		k.slot.wanted = nil
		p.wantedNames--
	default:
		delete(p.keys, k.name)
	}
}

// offer makes those active waiters of k that it does not keep out, and no others of k, candidates
// for the next grant: the readers that no writer is ahead of, or else the first writer. While readers
// hold k, only readers are; while a writer does, nobody is. Of many readers only as many are
// candidates as are looked at.
func (g *ledger) offer(p *pool, k *key) {
	offered := k.spare[:0]
	writer, written := k.writers.first()
	if first, ok := k.readers.first(); ok && !k.busy(first) && (!written || ahead(first, writer)) {
		for r := range k.readers.ascending {
			if written && ahead(writer, r) || len(offered) == Lookahead {
				break
			}
			offered = append(offered, r)
		}
	} else if written && !k.busy(writer) {
		offered = append(offered, writer)
	}
	last := k.offered
	k.offered, k.spare = offered, last
	if slices.Equal(offered, last) {
		return
	}
	for _, r := range offered {
		if !slices.Contains(last, r) {
			g.admit(r)
		}
	}
	for _, r := range last {
		if !slices.Contains(offered, r) {
			g.unadmit(r)
		}
	}
	clear(last) // let go of them
	g.touch(p)
}

// admit adds r to those that could be next in its pools, unless it is one of them.
func (g *ledger) admit(r *request) {
	if r.isAdmitted() {
		return
	}
	for seat := range r.allSeats {
		p := seat.pool
		if p.idle {
			p.idle, p.nextSince = false, g.now
		}
		g.touch(p)
	}
	if r.several() {
		g.enterClass(r)
	} else {
		r.pool.next.insert(r)
	}
}

// unadmit is the counterpart of admit.
func (g *ledger) unadmit(r *request) {
	switch {
	case r.class != nil:
		g.touchAll(r)
		g.leaveClass(r)
	case r.pool.next.has(r):
		r.pool.next.remove(r)
		g.touch(r.pool)
	}
}

// isAdmitted reports whether r is a candidate.
func (r *request) isAdmitted() bool { return r.class != nil || r.pool.next.has(r) }

// offerName offers the name of sl, which may be free now or no longer, to those that want it.
func (g *ledger) offerName(sl *slot) {
	if sl.wanted != nil && sl.pool != nil {
		g.offer(sl.pool, sl.wanted)
	}
}

// key is a key of a pool that somebody holds or waits for. Either readers hold it, or one writer.
// Those that wait for a certain name wait as writers of a key of their own, which is held while the
// name is not free.
type key struct {
	slot   *slot // of that name, which alone says whether the key is held; nil: an ordinary key
	name   string
	leases []*lease // that hold it, in the order of their grants; none: at most lock delays do
	lock   *lock    // the lock delay that ends last, perhaps over already; nil while nobody holds the key
	holds  int      // how many leases and lock delays hold it; if more than 1, all of readers, or all of one request
	read   bool     // while it is held: by readers
	queue  queue    // the waiters with this key, without followers

	readers, writers ordered[*request] // those of the queue that are active
	offered          []*request        // those that are admitted
	spare            []*request        // room for the next offered
}
