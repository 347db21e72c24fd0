package pool

// key returns the key of a name, which may be new; nil if the name is empty.
func (p *pool) key(name string) *key {
	if name == "" {
		return nil
	}
	k := p.keys[name]
	if k == nil {
		k = &key{name: name, active: ordered[*request]{less: ahead, pos: func(r *request) *int { return &r.keyPos }}}
		if p.keys == nil {
			p.keys = make(map[string]*key)
		}
		p.keys[name] = k
	}
	return k
}

// busy reports whether somebody holds k.
func (k *key) busy() bool { return k != nil && k.holds > 0 }

// enter adds r, which is in the queue, to the candidates for the next grant, or to the active
// waiters of its key.
func (g *ledger) enter(r *request) {
	if r.key == nil {
		g.admit(r.pool, r)
		return
	}
	r.key.active.put(r)
	g.offer(r.pool, r.key)
}

// exit is the counterpart of enter.
func (g *ledger) exit(r *request) {
	if r.key == nil {
		r.pool.next.remove(r)
		return
	}
	r.key.active.remove(r)
	g.offer(r.pool, r.key)
}

// holdKey notes that a lease or a lock delay holds the key of that name, and returns the
// key; nil if the name is empty.
func (g *ledger) holdKey(p *pool, name string) *key {
	k := p.key(name)
	if k != nil {
		k.holds++
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
	if k.holds--; k.lease == l {
		k.lease = nil
		if k.holds > 0 {
			k.lease = p.holderOf(name)
		}
	}
	if k.holds == 0 {
		k.lock = nil
	}
	g.offer(p, k)
	p.forgetKey(k)
}

// holderOf returns a lease that holds the key of that name; nil if none does.
func (p *pool) holderOf(name string) *lease {
	for _, l := range p.held.items {
		if l.Key == name {
			return l
		}
	}
	return nil
}

// keyHolder returns the owner of a lease that holds the key of that name; empty if
// none does.
func (p *pool) keyHolder(name string) string {
	if k := p.keys[name]; k != nil && k.lease != nil {
		return k.lease.Owner
	}
	return ""
}

// forgetKey forgets k if nobody holds it or waits for it.
func (p *pool) forgetKey(k *key) {
	if k != nil && k.holds == 0 && len(k.queue) == 0 {
		delete(p.keys, k.name)
	}
}

// offer makes the first active waiter of k, and no other waiter of k, a candidate for the next
// grant; while k is held, none is.
func (g *ledger) offer(p *pool, k *key) {
	first, ok := k.active.first()
	if !ok || k.busy() {
		first = nil
	}
	last := k.offered
	if last == first {
		return
	}
	k.offered = first
	if first != nil {
		g.admit(p, first)
	}
	if last != nil {
		p.next.remove(last)
	}
	g.touch(p)
}

// admit adds r to p.next, the candidates for the next grant.
func (g *ledger) admit(p *pool, r *request) {
	if p.idle {
		p.idle, p.nextSince = false, g.now
	}
	p.next.put(r)
}
