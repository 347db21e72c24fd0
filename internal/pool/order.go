package pool

import (
	"slices"
	"sort"
	"time"
)

// PriorityAging is how much waiting a step of priority is worth, unless a server says otherwise:
// see [New].
const PriorityAging = 10 * time.Minute

// rank is where a request stands. It does not change by itself, so two waiters change places
// only when an operator moves one of them, or when somebody of a better rank joins one.
type rank struct {
	at      time.Duration // when it came, less its priority times the aging; without aging, less its priority alone
	arrival uint64        // for those with the same at
}

func (a rank) before(b rank) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return a.arrival < b.arrival
}

// ahead reports whether a stands before b in the queue: requests that may exceed the limit go
// first, otherwise the rank counts.
func ahead(a, b *request) bool {
	if a.Overcommit != b.Overcommit {
		return a.Overcommit
	}
	return a.rank.before(b.rank)
}

// ownRank returns the rank of r without its followers.
func (g *ledger) ownRank(r *request) rank {
	if g.aging == 0 {
		return rank{-time.Duration(r.priority), r.arrival}
	}
	return rank{r.arrived - r.older - time.Duration(r.priority)*g.aging, r.arrival}
}

// bestRank returns the best rank of r and its followers, and the priority that led to it.
func (g *ledger) bestRank(r *request) (best rank, priority int) {
	best, priority = g.ownRank(r), r.priority
	for _, f := range r.followers {
		if of := g.ownRank(f); of.before(best) {
			best, priority = of, f.priority
		}
	}
	return best, priority
}

// rerank moves r to the place of its rank after a change of its priority, or of its followers.
// It does nothing if r is not in the queue.
func (g *ledger) rerank(r *request) {
	p := r.pool
	if !p.queue.has(r) {
		return
	}
	best, standing := g.bestRank(r)
	if best == r.rank {
		return
	}
	admitted := r.isAdmitted()
	if admitted {
		g.unadmit(r)
	}
	if r.key != nil {
		r.key.queue.remove(r)
	}
	for seat := range r.allSeats {
		p := seat.pool
		p.unlist(seat)
		seat.rank, seat.standing = best, standing
		p.list(seat)
		g.touch(p)
	}
	if admitted {
		g.admit(r)
	}
	if k := r.key; k != nil {
		k.queue.insert(r)
		if active := k.active(r.ReadsKey); active.has(r) {
			active.put(r)
		}
		g.offer(p, k)
	}
}

// list puts r into the queue.
func (p *pool) list(r *request) {
	p.queue.insert(r)
	p.wanted += r.units
	if r.standing != 0 {
		p.ranked++
	}
	if r.several() {
		p.several++
	}
}

// unlist is the counterpart of list.
func (p *pool) unlist(r *request) {
	p.queue.remove(r)
	p.wanted -= r.units
	if r.standing != 0 {
		p.ranked--
	}
	if r.several() {
		p.several--
	}
}

// higher returns how many of the first waiters stand there by a higher priority than r.
func (p *pool) higher(first int, r *request) (n int) {
	if p.ranked == 0 && r.standing == 0 { // as nearly always; a queue may be long
		return 0
	}
	for _, other := range p.queue[:first] {
		if other.standing > r.standing {
			n++
		}
	}
	return n
}

// takePlace gives r, a new request, the place of last, and what overtook last there. A better
// priority of r counts, a worse one does not.
func (g *ledger) takePlace(r, last *request) {
	r.arrival, r.older = last.arrival, r.arrived-last.arrived+last.older
	r.priority, r.overtaken = max(r.priority, last.priority), last.overtaken
	r.rank, r.standing = g.ownRank(r), r.priority
}

// queue is a list of requests that wait, each [ahead] of the next.
type queue []*request

// index returns the position of r, counted from 0. It panics if r is not in q.
func (q queue) index(r *request) int {
	i := q.search(r)
	if i == len(q) || q[i] != r {
		panic("pool: waiter is not in its queue")
	}
	return i
}

// search returns the index of the first request that is not ahead of r.
func (q queue) search(r *request) int {
	return sort.Search(len(q), func(i int) bool { return !ahead(q[i], r) })
}

// has reports whether r is in q.
func (q queue) has(r *request) bool {
	i := q.search(r)
	return i < len(q) && q[i] == r
}

// insert adds r.
func (q *queue) insert(r *request) {
	if n := len(*q); n == 0 || ahead((*q)[n-1], r) { // as nearly always
		*q = append(*q, r)
		return
	}
	*q = slices.Insert(*q, q.search(r), r)
}

// remove takes r out by moving the shorter part: nothing at the head, where grants happen. The
// room at the front goes when append next has to grow.
func (q *queue) remove(r *request) {
	s := *q
	i := s.index(r)
	if i >= len(s)/2 {
		*q = slices.Delete(s, i, i+1)
		return
	}
	copy(s[1:i+1], s[:i])
	s[0] = nil // let go of it
	*q = s[1:]
}
