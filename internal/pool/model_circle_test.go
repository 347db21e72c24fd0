package pool

// circle is whose leases r waits for while that owner waits for leases of r's owner, and the pool in which
// it does; empty: nobody's.
func (m *model) circle(r *modelRequest) (other, typ string) {
	if !m.waitsForLeases(r) {
		return "", ""
	}
	for _, w := range r.wants() {
		if other := m.holderBeside(w.pool, r); other != "" {
			var first *modelRequest
			for _, back := range m.waiters {
				if back.Owner != other || !back.active || !m.waitsForLeases(back) || first != nil && back.arrival > first.arrival {
					continue
				}
				for _, w := range back.wants() {
					if m.holderBeside(w.pool, back) == r.Owner {
						first, typ = back, w.pool.Type
						break
					}
				}
			}
			if first != nil {
				m.count("waits in a circle")
				return other, typ
			}
		}
	}
	return "", ""
}

// waitsForLeases says whether r is in the queue, and no operator keeps it out.
func (m *model) waitsForLeases(r *modelRequest) bool {
	return r.leader == nil && !r.isShut() && (r.Overcommit || !m.isPaused(r.pool))
}

// holderBeside is the one owner beside that of r which has all leases that keep r out of p; empty: there
// are several, or not only leases do.
func (m *model) holderBeside(p *modelPool, r *modelRequest) (other string) {
	shuts := r.pool == p && p.shuts(r)
	if r.Owner == "" || p.fits(r) && !shuts {
		return ""
	}
	n := 0
	for _, l := range m.leases {
		switch {
		case l.Type != p.Type && !(shuts && r.Name != ""), shuts && r.Name != "" && l.Name != r.Name, shuts && r.Name == "" && l.heldKey() != r.Key:
			continue
		}
		if n++; n > 100 || l.ReleaseAt > 0 || l.Broken != "" || l.Owner == "" {
			return ""
		}
		if l.Owner != r.Owner {
			if other != "" && other != l.Owner {
				return ""
			}
			other = l.Owner
		}
	}
	if shuts && r.Name != "" && m.names[r.Name].reserved != nil || !shuts && (p.locked > 0 || len(p.out) > 0) {
		return ""
	}
	return other
}
