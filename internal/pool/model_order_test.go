package pool

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// The order of the queue, and who overtakes whom, as the model knows them.

// counts is when r counts as having come, and with which arrival, by its own priority.
func (r *modelRequest) counts() (at time.Duration, arrival uint64) {
	if r.pool.aging == 0 {
		return -time.Duration(r.priority), r.arrival
	}
	return r.placed - r.pool.aging*time.Duration(r.priority), r.arrival
}

// bestOf is the one of r and its followers that counts as having come first.
func bestOf(r *modelRequest) *modelRequest {
	best := r
	at, arrival := r.counts()
	for _, f := range r.followers {
		if ft, fn := f.counts(); ft < at || ft == at && fn < arrival {
			best, at, arrival = f, ft, fn
		}
	}
	return best
}

// stands says whether a is before b in the queue.
func stands(a, b *modelRequest) bool {
	if a.Overcommit != b.Overcommit {
		return a.Overcommit
	}
	at, an := bestOf(a).counts()
	bt, bn := bestOf(b).counts()
	return at < bt || at == bt && an < bn
}

// sort orders the queue again, after somebody's place has changed.
func (p *modelPool) sort() {
	slices.SortStableFunc(p.queue, func(a, b *modelRequest) int {
		switch {
		case stands(a, b):
			return -1
		case stands(b, a):
			return 1
		}
		return 0
	})
}

// takePlace gives r the place of last.
func (m *model) takePlace(r, last *modelRequest) {
	r.arrival, r.placed = last.arrival, last.placed
	r.priority, r.overtaken = max(r.priority, last.priority), last.overtaken
}

// most is how many units may overtake a waiter.
func (p *modelPool) most() int {
	if p.Overtake == nil {
		return p.capacity()
	}
	return int(p.Overtake.billionths * int64(p.capacity()) / 1_000_000_000)
}

// there are the waiters that could be next if there was room, in their order: they are there, and their
// keys do not keep them out. asking counts as one of them; nil: nobody asks.
func (p *modelPool) there(asking *modelRequest) iter.Seq[*modelRequest] {
	return func(yield func(*modelRequest) bool) {
		keys := keyOrder{}
		isLet := func(r *modelRequest) bool { return r.pool == p && keys.lets(p, r) || r.pool != p && r.keyLets() }
		asks := asking != nil && asking.in(p) > 0 && !asking.isShut()
		for _, r := range p.queue {
			if asks && stands(asking, r) {
				if asks = false; isLet(asking) && !yield(asking) {
					return
				}
			}
			if r.isThere() && isLet(r) && !yield(r) {
				return
			}
		}
		if asks && isLet(asking) {
			yield(asking)
		}
	}
}

// candidates are the first of them that somebody of worse rank may have to overtake, and one more: of
// those that want several pools the ones for which all others have room.
func (p *modelPool) candidates(asking *modelRequest) (all []*modelRequest) {
	for r := range p.there(asking) {
		if r.hasRoomBeside(p) {
			all = append(all, r)
		}
		if len(all) > 50 {
			break
		}
	}
	return all
}

// candidatesBefore are the candidates before r.
func (p *modelPool) candidatesBefore(r *modelRequest) (all []*modelRequest) {
	for _, c := range p.candidates(nil) {
		if c == r || stands(r, c) {
			break
		}
		all = append(all, c)
	}
	return all
}

// thereBefore are those before r that could be next if there was room.
func (p *modelPool) thereBefore(r *modelRequest) (all []*modelRequest) {
	for c := range p.there(nil) {
		if c == r || stands(r, c) {
			break
		}
		all = append(all, c)
	}
	return all
}

// mayPass says whether r may be granted before those others, if it fits.
func (p *modelPool) mayPass(r *modelRequest, others []*modelRequest) bool {
	return len(others) < 50 && !p.behindKey(r.lead()) && !p.isKeptFromAll(r.lead()) &&
		!slices.ContainsFunc(others, func(other *modelRequest) bool {
			return p.blocks(other) || !other.several() && !p.left(other, r.in(p))
		})
}

// isKeptFromAll says whether p is kept for a request of several pools before r.
func (p *modelPool) isKeptFromAll(r *modelRequest) bool {
	kept := p.keptFor()
	return kept != nil && stands(kept, r)
}

// behindKey says whether somebody before r waits for the key of r, and one of the two writes it.
func (p *modelPool) behindKey(r *modelRequest) bool {
	return r.claim() != (claim{}) && r.pool == p && slices.ContainsFunc(p.queue, func(other *modelRequest) bool {
		return other.pool == p && other.claim() == r.claim() && !(r.ReadsKey && other.ReadsKey) && other.isThere() && stands(other, r)
	})
}

// whoGoes is the waiter that is granted next, once pace and pauses allow it, and those that it
// overtakes; nil: nobody. asking is a request that just came.
func (p *modelPool) whoGoes(asking *modelRequest) (r *modelRequest, passed []*modelRequest) {
	if asking == nil && p.active == 0 {
		return nil, nil
	}
	candidates, kept := p.candidates(asking), p.keptFor()
	for i, c := range candidates {
		turn := c.turn()
		if c == asking {
			turn = c
		}
		passed := candidates[:i]
		if kept != nil && stands(kept, c) {
			return nil, nil
		}
		switch free := func() bool { return turn != nil && (i == 0 || p.mayPass(turn, passed)) }; {
		case !p.fits(cmp.Or(turn, c)):
		case c.several() && c.fitsAll() && free() && p.othersLet(c):
			return c, passed
		case c.several():
		case free():
			return c, passed
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// overtake counts what r gets, for those that it overtakes in its pools and for the followers of its
// leader.
func (m *model) overtake(c Change, r *modelRequest, passes [][]*modelRequest) {
	all := map[*modelRequest]bool{}
	for i, w := range r.wants() {
		noted := map[string]Waiter{}
		for _, other := range passes[i] {
			all[other] = true
			m.count("counted")
			switch {
			case !other.several():
				if other.overtaken += w.units; other.overtaken == w.pool.most() {
					m.count("overtaken as often as may be")
				}
			case other.passedInAll() >= 4_000_000_000:
				m.count("overtaken where another pool is kept")
				continue
			default:
				other.pass(w)
				if slices.Index(w.pool.queue, other) >= 10 {
					m.count("overtaken, and not noted")
					continue
				}
				m.count("counted for one of several pools")
				other.store()
			}
			noted[other.ID] = other.waiter()
		}
		for range noted {
			if len(m.passed) == 0 || *m.passed[0] != noted[m.passed[0].ID] {
				m.fail("%s overtook others: noted %+v, want of %+v", r.ID, m.passed, noted)
			}
			m.passed = m.passed[1:]
		}
	}
	if c.Overtook != len(all) {
		m.fail("%s went ahead of %d, want %d", c.ID, c.Overtook, len(all))
	}
	m.passOn(r.lead())
}

// pass counts what others get for r, which wants several pools.
func (r *modelRequest) pass(w want) {
	i := slices.IndexFunc(r.wants(), func(own want) bool { return own.pool == w.pool })
	r.passed[i] += partsOf(w.units, w.pool.most())
	if r.passedInAll() >= 4_000_000_000 {
		r.pool.m.count("one of several pools overtaken as often as may be")
	}
}

// store notes what overtook r.
func (r *modelRequest) store() {
	r.stored = strings.Trim(fmt.Sprint(r.passed), "[]")
}

// passOn counts for the followers of r, which leaves the queue, what overtook r.
func (m *model) passOn(r *modelRequest) {
	for _, f := range r.followers {
		if f.overtaken >= r.overtaken {
			continue
		}
		m.count("counted for a follower")
		f.overtaken = r.overtaken
		want := f.waiter()
		if len(m.passed) > 0 && m.passed[0].KeptUntil == 0 { // the configuration of a restart dropped r, before f was missed
			want.HoldsUntil, want.KeptUntil = 0, 0
		}
		if len(m.passed) == 0 || *m.passed[0] != want {
			m.fail("%s was overtaken with %s: noted %+v, want %+v", f.ID, r.ID, m.passed, want)
		}
		m.passed = m.passed[1:]
	}
	if len(m.passed) > 0 {
		m.fail("noted as overtaken: %+v, and nobody was", m.passed)
	}
}

// orders are what people are told of the places in the queue.
func (p *modelPool) orders() map[*modelRequest]Order {
	all := make(map[*modelRequest]Order, len(p.queue))
	var counts [1000]int // of the priorities so far
	for _, r := range p.queue {
		o := Order{Priority: bestOf(r).priority, Overtaken: r.overtaken}
		switch {
		case r.several():
			o.Overtaken, o.MayOvertake = min(4*p.most(), r.passedInAll()*p.most()/1_000_000_000), 4*p.most()
		case !r.Overcommit:
			o.MayOvertake = p.most()
		}
		for _, n := range counts[500+o.Priority+1:] {
			o.Higher += n
		}
		counts[500+o.Priority]++
		all[r] = o
		for _, f := range r.followers {
			all[f] = Order{Priority: f.priority}
		}
	}
	return all
}

// auditRoom: a pool never has room for a waiter that no rule of docs/pools.md keeps back.
func (m *sim) auditRoom() {
	for _, r := range m.waiters {
		turn := r
		if r.leader == nil && r.queued {
			turn = r.turn()
		}
		if r.leader != nil || turn == nil || !r.isThere() || !m.mayGo(turn) || !turn.fitsAll() || r.pool.shuts(r) || r.pool.behindKey(r) {
			continue // no pool has room for it, or a pause, a pace, a reservation or its key keeps it back
		}
		if !slices.ContainsFunc(r.wants(), func(w want) bool { return w.pool.keepsBack(r, turn.in(w.pool)) }) {
			m.failf("%s has no lease: all of its pools have room, and no rule keeps it back", r.ID)
		}
	}
}

// keepsBack says whether the order keeps r back in p: a waiter ahead of it must not be overtaken, or too
// many are ahead of it to look at.
func (p *modelPool) keepsBack(r *modelRequest, units int) bool {
	looked := 0
	for other := range p.there(nil) {
		switch {
		case other == r:
			return looked >= 50
		case other.several() && p.isKept(other):
			return true // kept for it
		case !other.several() && (p.blocks(other) || !p.left(other, units)):
			return true // it goes as soon as it can, or was overtaken up to its bound
		case other.hasRoomBeside(p):
			looked++
		}
	}
	return false
}
