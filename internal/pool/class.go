package pool

import (
	"slices"
	"strconv"
	"strings"
)

// class is the requests of several pools that ask for the same pools, that are there, and that nothing
// keeps out. The cost of a grant depends on how many classes its pool has, and hardly on how many requests
// wait.
type class struct {
	name  string      // in ledger.classes
	pools []*pool     // that of the first type comes first
	open  group       // those that may still be overtaken
	kept  []*keptLike // those that were overtaken up to their bound
}

// keptLike is those of a class whose pools are kept in the same order.
type keptLike struct {
	order []int // indices of class.pools
	group
}

// beside is a pool that is wanted together with another one, by so many classes.
type beside struct {
	pool    *pool
	classes int
}

// classOf returns the class of r, which wants several pools; it may be new.
func (g *ledger) classOf(r *request) *class {
	name := strings.Join(r.Types(), "\n")
	c := g.classes[name]
	if c == nil {
		c = &class{name: name}
		for seat := range r.allSeats {
			c.pools = append(c.pools, seat.pool)
		}
		g.classes[c.name] = c
		for _, p := range c.pools {
			p.classes = append(p.classes, c)
			p.besides(c, 1)
		}
	}
	return c
}

// besides counts n more classes, or fewer, in what p knows of the pools of c.
func (p *pool) besides(c *class, n int) {
	for _, other := range c.pools {
		i := slices.IndexFunc(p.beside, func(b beside) bool { return b.pool == other })
		if i < 0 {
			i = len(p.beside)
			p.beside = append(p.beside, beside{pool: other})
		}
		if p.beside[i].classes += n; p.beside[i].classes == 0 {
			p.beside = slices.Delete(p.beside, i, i+1)
		}
	}
}

// enterClass adds r to its class.
func (g *ledger) enterClass(r *request) {
	r.class = g.classOf(r)
	r.portions = r.portions[:0]
	for seat := range r.allSeats {
		r.portions = append(r.portions, portion{seat.units, seat.pool.leasesFor(seat)})
	}
	r.class.put(r)
}

// put adds r, whose counts say where to.
func (c *class) put(r *request) {
	if r.passedInAll() < overtakenBySeveral*billion {
		c.open.insert(r)
		return
	}
	order := r.keepOrder()
	i := slices.IndexFunc(c.kept, func(k *keptLike) bool { return slices.Equal(k.order, order) })
	if i < 0 {
		i = len(c.kept)
		c.kept = append(c.kept, &keptLike{order: order})
	}
	r.kept = c.kept[i]
	r.kept.insert(r)
}

// leaveClass is the counterpart of enterClass. A class is forgotten with its last request.
func (g *ledger) leaveClass(r *request) {
	c, k := r.class, r.kept
	r.class, r.kept = nil, nil
	if k == nil {
		c.open.remove(r)
	} else if k.remove(r); len(k.blocks) == 0 {
		c.kept = slices.DeleteFunc(c.kept, func(other *keptLike) bool { return other == k })
	}
	if len(c.open.blocks)+len(c.kept) == 0 {
		delete(g.classes, c.name)
		for _, p := range c.pools {
			p.classes = slices.DeleteFunc(p.classes, func(other *class) bool { return other == c })
			p.besides(c, -1)
		}
	}
}

// groups yields all requests of c, in several parts.
func (c *class) groups(yield func(*group) bool) {
	if !yield(&c.open) {
		return
	}
	for _, k := range c.kept {
		if !yield(&k.group) {
			return
		}
	}
}

// roomBeside returns the room in the pools of c beside p, and whether it is enough for any request at all.
// Requests of c for which it is not are no candidates of p.
func (c *class) roomBeside(p *pool) (all rooms, enough bool) {
	all = anyRoom()
	for i, q := range c.pools {
		if q == p {
			continue
		}
		if all[i] = q.room(); all[i].none() {
			return all, false
		}
	}
	return all, true
}

// roomBefore returns the room that the pools of c before p in the order of k have: p is kept for those for
// which it is enough.
func (c *class) roomBefore(k *keptLike, p *pool) rooms {
	all := anyRoom()
	for _, i := range k.order {
		q := c.pools[i]
		if q == p {
			break
		}
		all[i] = q.room()
	}
	return all
}

// keptFor reports whether nobody overtakes r in p, one of its several pools.
func (p *pool) keptFor(r *request) bool {
	w := r.whole()
	switch {
	case w.class == nil:
		return false
	case p.bound() == 0:
		return true
	case w.kept == nil:
		return false
	}
	all := w.class.roomBefore(w.kept, p)
	return all.have(w.portions)
}

// keptForFirst returns the first request of several pools for which p is kept: nobody behind it is
// granted anything by p. It returns nil if there is none.
func (p *pool) keptForFirst() (first *request) {
	always := p.bound() == 0
	add := func(c *group, all rooms) {
		if r := c.first(&all); r != nil && (first == nil || ahead(r, first)) {
			first = r
		}
	}
	for _, c := range p.classes {
		if always {
			add(&c.open, anyRoom())
		}
		for _, k := range c.kept {
			if always {
				add(&k.group, anyRoom())
			} else {
				add(&k.group, c.roomBefore(k, p))
			}
		}
	}
	return first
}

// candidates returns the first of those that could be next in p, at most [Lookahead], in order: the waiters
// of p alone, and of those of several pools the ones for which all others have room; of these their seats in p.
func (p *pool) candidates() queue {
	first := p.next[:min(len(p.next), Lookahead)]
	if len(p.classes) == 0 {
		return first
	}
	first = slices.Clone(first)
	for _, c := range p.classes {
		all, enough := c.roomBeside(p)
		if !enough {
			continue
		}
		for q := range c.groups {
			for r := range q.within(&all) {
				i := first.search(r)
				if i == Lookahead {
					break
				}
				first = slices.Insert(first[:min(len(first), Lookahead-1)], i, r.seatIn(p))
			}
		}
	}
	return first
}

// first returns the first candidate of p, or the request before it for which p is kept.
func (p *pool) first() (r *request, ok bool) {
	if all := p.candidates(); len(all) > 0 {
		r = all[0]
	}
	if kept := p.keptForFirst(); kept != nil && (r == nil || ahead(kept, r)) {
		r = kept.seatIn(p)
	}
	return r, r != nil
}

// hasWaiters reports whether anybody waits for p that is there and that nothing keeps out.
func (p *pool) hasWaiters() bool { return len(p.next)+len(p.classes) > 0 }

// seatIn returns the seat of r in p: r itself, unless it is of several pools.
func (r *request) seatIn(p *pool) *request {
	for seat := range r.allSeats {
		if seat.pool == p {
			return seat
		}
	}
	return nil
}

// passedInAll returns what went ahead of r in all its pools.
func (r *request) passedInAll() (sum int) {
	for _, parts := range r.passed {
		sum += parts
	}
	return sum
}

// keepOrder returns in which order the pools of r are kept for it: first the one where least went ahead
// of it.
func (r *request) keepOrder() []int {
	order := make([]int, len(r.passed))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return r.passed[a] - r.passed[b] })
	return order
}

// storedFirst is for how many places of a queue the store learns what goes ahead of requests of several
// pools. Of those behind, a restart forgets what it has not learned: else a grant might write thousands of
// waiters.
const storedFirst = 10

// pass counts units of p that go ahead of the requests of c to seat. One that has reached its bound
// changes the queue.
func (g *ledger) pass(c *class, p *pool, seat *request, units int) {
	part, i := partOf(units, p.bound()), slices.Index(c.pools, p)
	last := p.queue[min(storedFirst, len(p.queue))-1]
	for r := range c.open.before(seat) {
		r.passed[i] += part
		if r.passedInAll() >= overtakenBySeveral*billion {
			c.open.remove(r)
			c.put(r)
		}
		if !ahead(last, r) {
			g.noteWaiter(Overtaken, r)
		}
	}
}

// formatPassed returns [Waiter.Passed] for what went ahead of a request in each of its pools.
func formatPassed(passed []int) string {
	texts := make([]string, len(passed))
	for i, parts := range passed {
		texts[i] = strconv.Itoa(parts)
	}
	return strings.Join(texts, " ")
}

// parsePassed is the reverse of formatPassed, for a request of so many pools. What is missing, or is no
// number that can be, is zero.
func parsePassed(text string, pools int) []int {
	passed := make([]int, pools)
	for i, field := range strings.Fields(text) {
		if n, err := strconv.ParseInt(field, 10, 48); err == nil && n >= 0 && i < pools {
			passed[i] = int(n)
		}
	}
	return passed
}
