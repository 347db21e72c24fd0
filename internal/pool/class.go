package pool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// class is the requests of several pools that ask for the same, that are there, and that nothing keeps
// out. So a pool has room for all of them or for none, and what each pool does about thousands of them
// costs as much as for one. A grant costs in proportion to the classes of its pool.
type class struct {
	name  string      // in ledger.classes
	wants []portion   // that of the first type comes first
	open  queue       // those that may still be overtaken
	kept  []*keptLike // those that were overtaken up to their bound
}

// portion is what the requests of a class want of one pool.
type portion struct {
	pool          *pool
	units, leases int
}

// hasRoom reports whether the pool has room for one of the requests.
func (w portion) hasRoom() bool { return w.pool.hasRoomFor(w.units, w.leases, false) }

// keptLike is those of a class whose pools are kept in the same order.
type keptLike struct {
	order []int // indices of class.wants
	queue queue
}

// classOf returns the class of r, which wants several pools; it may be new.
func (g *ledger) classOf(r *request) *class {
	var name strings.Builder
	for seat := range r.allSeats {
		fmt.Fprintf(&name, "%s\n%d/%d\n", seat.Type, seat.units, seat.pool.leasesFor(seat))
	}
	c := g.classes[name.String()]
	if c == nil {
		c = &class{name: name.String()}
		for seat := range r.allSeats {
			c.wants = append(c.wants, portion{seat.pool, seat.units, seat.pool.leasesFor(seat)})
			seat.pool.classes = append(seat.pool.classes, c)
		}
		g.classes[c.name] = c
	}
	return c
}

// enterClass adds r to its class.
func (g *ledger) enterClass(r *request) {
	r.class = g.classOf(r)
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
	c.kept[i].queue.insert(r)
}

// leaveClass is the counterpart of enterClass. A class is forgotten with its last request.
func (g *ledger) leaveClass(r *request) {
	c := r.class
	r.class = nil
	if c.open.has(r) {
		c.open.remove(r)
	} else {
		i := slices.IndexFunc(c.kept, func(k *keptLike) bool { return k.queue.has(r) })
		k := c.kept[i]
		if k.queue.remove(r); len(k.queue) == 0 {
			c.kept = slices.Delete(c.kept, i, i+1)
		}
	}
	if len(c.open)+len(c.kept) == 0 {
		delete(g.classes, c.name)
		for _, w := range c.wants {
			w.pool.classes = slices.DeleteFunc(w.pool.classes, func(other *class) bool { return other == c })
		}
	}
}

// queues yields the queues of c.
func (c *class) queues(yield func(queue) bool) {
	if len(c.open) > 0 && !yield(c.open) {
		return
	}
	for _, k := range c.kept {
		if !yield(k.queue) {
			return
		}
	}
}

// index returns which of c.wants is that of p; -1 if none is.
func (c *class) index(p *pool) int {
	return slices.IndexFunc(c.wants, func(w portion) bool { return w.pool == p })
}

// hasRoomBeside reports whether the pools of c beside p have room for its requests. If not, these are
// no candidates of p.
func (c *class) hasRoomBeside(p *pool) bool {
	for _, w := range c.wants {
		if w.pool != p && !w.hasRoom() {
			return false
		}
	}
	return true
}

// keeps reports whether p is kept for the requests of k: the pools before it in their order have room.
func (c *class) keeps(k *keptLike, p *pool) bool {
	for _, i := range k.order {
		if c.wants[i].pool == p {
			return true
		}
		if !c.wants[i].hasRoom() {
			return false
		}
	}
	return false
}

// keptFor reports whether nobody overtakes r in p, one of its several pools.
func (p *pool) keptFor(r *request) bool {
	w := r.whole()
	if w.class == nil {
		return false
	}
	if p.bound() == 0 {
		return true
	}
	for _, k := range w.class.kept {
		if k.queue.has(w) {
			return w.class.keeps(k, p)
		}
	}
	return false
}

// keptForFirst returns the first request of several pools for which p is kept: nobody behind it is
// granted anything by p. It returns nil if there is none.
func (p *pool) keptForFirst() (first *request) {
	always := p.bound() == 0
	add := func(q queue) {
		if first == nil || ahead(q[0], first) {
			first = q[0]
		}
	}
	for _, c := range p.classes {
		if always && len(c.open) > 0 {
			add(c.open)
		}
		for _, k := range c.kept {
			if always || c.keeps(k, p) {
				add(k.queue)
			}
		}
	}
	return first
}

// candidates yields those that could be next in p, in order: the waiters of p alone, and of those of
// several pools the ones for which all others have room; of these their seats in p.
func (p *pool) candidates(yield func(*request) bool) {
	lists := make([]queue, 1, 8)
	lists[0] = p.next
	for _, c := range p.classes {
		if c.hasRoomBeside(p) {
			for q := range c.queues {
				lists = append(lists, q)
			}
		}
	}
	for {
		least := -1
		for i, q := range lists {
			if len(q) > 0 && (least < 0 || ahead(q[0], lists[least][0])) {
				least = i
			}
		}
		if least < 0 || !yield(lists[least][0].seatIn(p)) {
			return
		}
		lists[least] = lists[least][1:]
	}
}

// first returns the first candidate of p, or the request before it for which p is kept.
func (p *pool) first() (r *request, ok bool) {
	for c := range p.candidates {
		r = c
		break
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

// storedFirst is for how many places of a queue the store learns each time that somebody goes ahead of a
// request of several pools. Of those behind, it learns each whole part: else a grant might write thousands
// of waiters.
const storedFirst = 10

// pass counts units of p that go ahead of the requests of c to seat. One that has reached its bound
// changes the queue.
func (g *ledger) pass(c *class, p *pool, seat *request, units int) {
	part, i := partOf(units, p.bound()), c.index(p)
	last := p.queue[min(storedFirst, len(p.queue))-1]
	for k := c.open.search(seat) - 1; k >= 0; k-- {
		r := c.open[k]
		before := r.passedInAll()
		r.passed[i] += part
		after := r.passedInAll()
		if after >= overtakenBySeveral*billion {
			c.open.remove(r)
			c.put(r)
		}
		if !ahead(last, r) || after/billion > before/billion {
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
