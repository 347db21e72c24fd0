package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Units, keys and made-up names, as the model knows them.

// capacity is how many units p has.
func (p *modelPool) capacity() int {
	if p.Units > 0 {
		return p.Units
	}
	return len(p.Names)
}

// fits says whether r can be granted beside what is in use: there are enough names, and the
// units are within the limit and the overcommit of r, or alone.
func (p *modelPool) fits(r *modelRequest) bool {
	if p.Units == 0 && r.in(p) > len(p.free) {
		return false
	}
	return p.hasRoom(r, p.taken())
}

func (p *modelPool) hasRoom(r *modelRequest, beside int) bool {
	most := p.limit
	if r.Overcommit {
		most += p.Overcommit
	}
	return beside+r.in(p) <= most || beside == 0 && r.in(p) <= p.capacity()
}

// mayGo says whether neither a pause nor the pace holds r back.
func (m *model) mayGo(r *modelRequest) bool {
	return r.Overcommit || !slices.ContainsFunc(r.wants(), func(w want) bool { return m.isPaused(w.pool) || w.pool.due() > m.now })
}

// first is the first that could be next, or the one before it for which p is kept; nil: none.
func (p *modelPool) first() *modelRequest {
	if p.active == 0 {
		return nil
	}
	for r := range p.there(nil) {
		if r.hasRoomBeside(p) || p.isKept(r) {
			return r
		}
	}
	return nil
}

// isWaitedFor says whether somebody could be next if there was room.
func (p *modelPool) isWaitedFor() bool {
	if p.active > 0 {
		for range p.there(nil) {
			return true
		}
	}
	return false
}

// shuts says whether those that hold the key of r keep r out.
func (p *modelPool) shuts(r *modelRequest) bool {
	if r.Name != "" {
		return !p.names[r.Name].isFree()
	}
	return p.written[r.Key] > 0 || p.keys[r.Key] > 0 && !r.ReadsKey
}

// behindWriter says whether those that hold the key of r let it in, but not a writer before r.
func (p *modelPool) behindWriter(r *modelRequest) bool {
	return p.keys[r.Key] > 0 && !p.shuts(r) && p.behindKey(r)
}

// keyOrder is which keys those that were looked at want, in the order of the queue.
type keyOrder map[claim]struct{ readers, writers int }

// lets says whether r, the next that is looked at, is kept out neither by those that hold its key
// nor by those before it.
func (o keyOrder) lets(p *modelPool, r *modelRequest) bool {
	key := r.claim()
	if key == (claim{}) {
		return true
	}
	before := o[key]
	lets := !p.shuts(r) && before.writers == 0 && (r.ReadsKey || before.readers == 0)
	if r.ReadsKey {
		before.readers++
	} else {
		before.writers++
	}
	o[key] = before
	return lets
}

// look notes, at the end of a call, since when p has had a next waiter.
func (m *model) look(p *modelPool) {
	is := p.isWaitedFor()
	if is && !p.hasNext {
		p.since = m.now
	}
	p.hasNext = is
}

// take notes that a lease or a lock delay holds a key.
func (m *model) take(p *modelPool, key string, reads bool) { p.hold(key, reads, 1) }

func (m *model) drop(p *modelPool, key string, reads bool) { p.hold(key, reads, -1) }

func (p *modelPool) hold(key string, reads bool, n int) {
	if key != "" {
		p.keys[key] += n
		if !reads {
			p.written[key] += n
		}
	}
	p.dirty = true
}

// unitsOf is how many units q asks for, or the error if that is unknown.
func (p *modelPool) unitsOf(q Request) (int, error) {
	switch {
	case q.Count > 1, q.Weighted && q.Count > 0:
		return q.Count, nil
	case q.HasItems && p.Cost == nil:
		return 0, ErrNoCost
	case q.HasItems:
		const one = 1_000_000_000
		units := int((p.Cost.Base.billionths + p.Cost.PerItem.billionths*int64(q.Items) + one - 1) / one)
		for p.Cost.RoundTo > 0 && units%p.Cost.RoundTo > 0 {
			units++
		}
		return max(units, p.Cost.Min, 1), nil
	case p.Unknown > 0:
		return p.Unknown, nil
	}
	return 1, nil
}

// shares is how many leases r gets of one of its pools, of how many units each.
func (r *modelRequest) shares(w want) (leases, units int) {
	if (r.Weighted || r.Count < 2 || w.pool != r.pool) && w.pool.Units > 0 {
		return 1, w.units
	}
	return w.units, 1
}

// nextNames are the names that p grants next: those that are free longest, or made-up names
// that were not used for long.
func (m *model) nextNames(p *modelPool, r *modelRequest, count int) []string {
	if p.Units == 0 {
		return p.pick(r, count, m.count)
	}
	var names []string
	for k := m.named[p.Type]; len(names) < count; {
		if k++; k > 1_000_000 {
			k = 1
			m.count("names begin again")
		}
		name := fmt.Sprint(p.Type, "-", k)
		if n := m.names[name]; n != nil && !n.isFree() {
			continue
		}
		names = append(names, name)
		m.named[p.Type] = k
	}
	return names
}

// name returns what is known of a name, which may be new.
func (m *model) name(name string) *modelName {
	n := m.names[name]
	if n == nil {
		n = &modelName{}
		m.names[name] = n
	}
	return n
}

// freeName makes a name available, or forgets the oldest of those in no pool.
func (m *model) freeName(name string) {
	n := m.names[name]
	if n.reserved != nil {
		return
	}
	if n.pool != nil {
		n.pool.free = append(n.pool.free, name)
		n.pool.dirty = true
		return
	}
	if m.recalled = append(m.recalled, name); len(m.recalled) > simRecalled {
		old := m.names[m.recalled[0]]
		if old != nil && old.pool == nil && old.isFree() {
			delete(m.names, m.recalled[0])
		}
		m.recalled = m.recalled[1:]
	}
}

// simRecalled is how many names in no pool a simulation remembers.
const simRecalled = 30

// isKnown says whether there was such a name, as far as the model can know.
func (m *model) isKnown(name string) bool {
	if m.names[name] != nil {
		return true
	}
	i := strings.LastIndex(name, "-")
	return i > 0 && strings.Trim(name[i+1:], "0123456789") == "" && name[i+1:] != "" && m.named[name[:i]] > 0
}

// isHolder says whether people may be told that the owner with the token holds the key.
func (m *model) isHolder(p *modelPool, key, token, owner string) bool {
	return slices.ContainsFunc(m.leases, func(l *modelLease) bool {
		name, of := SplitOwner(l.Owner)
		return l.Type == p.Type && l.heldKey() == key && name == token && of == owner
	})
}

// resize changes the units of a lease. To shrink always succeeds, and to grow takes nothing
// from the waiter that is next. With After, a resize is not mistaken for an earlier one.
func (m *sim) resize(ref Ref, r Resizing) {
	m.logf("resize %+v from %d to %d%s", ref, r.From, r.To, saidAfter(r))
	n := m.names[ref.Name]
	var want error
	wantUnits := 0
	switch {
	case m.lost(ref) != "" && !(n != nil && n.lease != nil && n.lease.isMeant(ref)):
		want = ErrLost
	default:
		l := n.lease
		p := m.pools[l.Type]
		beside := p.taken() - l.Units
		first := p.first()
		wantUnits = l.Units
		decided := true
		switch last := r.After != nil && *r.After == l.Resizes-1; {
		case p.Units == 0 && l.Units == 1:
			want, decided = ErrListed, false
		case r.To == l.Units && (last || r.After == nil):
			decided = false
		case r.From != l.Units:
			want, decided = ErrStale, false
		case r.After != nil && *r.After != l.Resizes:
			want, decided = ErrStale, false
			m.count("a copy of a resize came late")
		case r.To < l.Units:
			m.count("shrunk")
		case r.To == l.Units:
			m.count("resized to what it held")
		case l.Broken != "":
			want = ErrLost
		case r.To > p.capacity():
			want = ErrTooMany
		case m.isPaused(p), beside+r.To > p.limit && beside > 0:
			want = ErrNoRoom
		case first != nil && !p.hasRoom(cmp.Or(first.turn(), first), beside+r.To):
			want = ErrNoRoom
			m.count("a growth would take what is next")
		default:
			m.count("grown")
		}
		if decided {
			m.sizing = l
			m.sizedFrom = l.Units
			l.Resizes++
		}
		if want == nil && r.To != l.Units {
			if r.To > l.Units {
				p.spend(r.To - l.Units)
				p.notePace()
			}
			p.inUse += r.To - l.Units
			l.Units, wantUnits = r.To, r.To
			p.dirty = true
		}
	}
	m.do(func(now time.Duration) {
		l, err := m.set.Resize(now, ref, r)
		m.mustBe(err, want)
		if l.Units != wantUnits && want != ErrLost && want != ErrListed {
			m.failf("resized to %d units, want %d", l.Units, wantUnits)
		}
	})
	if m.sizing != nil {
		m.failf("%+v was not noted as resized", m.sizing.Lease)
	}
}

func saidAfter(r Resizing) string {
	if r.After == nil {
		return ""
	}
	return fmt.Sprintf(" after %d", *r.After)
}

func (m *model) isPaused(p *modelPool) bool {
	_, paused := m.pauses[p.Type]
	return paused
}
