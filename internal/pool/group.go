package pool

import (
	"math"
	"slices"
	"sort"

	"github.com/leasectl/leasectl/leaseapi"
)

// portion is what a request of several pools wants of one of them, or the most that a request may want for
// which a pool has room.
type portion struct{ units, leases int }

// room returns the most for which p has room, for a request without overcommit.
func (p *pool) room() portion {
	units := p.ceiling(false) - p.taken()
	if p.taken() == 0 {
		units = max(units, p.Capacity())
	}
	return portion{units, p.leasesLeft()}
}

// none reports whether there is room for nobody.
func (a portion) none() bool { return a.units <= 0 || a.leases <= 0 }

// rooms are the most that a request may want of each pool of its class.
type rooms [1 + leaseapi.MaxAlso]portion

// anyRoom is the rooms of pools that do not matter.
func anyRoom() (all rooms) {
	for i := range all {
		all[i] = portion{math.MaxInt, math.MaxInt}
	}
	return all
}

// have reports whether there is room for portions.
func (all *rooms) have(portions []portion) bool {
	for i, want := range portions {
		if want.units > all[i].units || want.leases > all[i].leases {
			return false
		}
	}
	return true
}

// group is requests of a class in order. It has them in blocks which know the least that their requests
// want of each pool: so a few for which there is room are found among thousands for which there is none.
type group struct{ blocks []*groupBlock }

// groupBlock is a part of a group; it is never empty.
type groupBlock struct {
	queue queue
	least []portion // of all its requests
}

// groupBlockSize is the most requests of a block. With 10,000 requests there are about as many blocks
// as requests in each.
const groupBlockSize = 128

// block returns the index of the block that r is in, or belongs to.
func (c *group) block(r *request) int {
	i := sort.Search(len(c.blocks), func(i int) bool {
		q := c.blocks[i].queue
		return !ahead(q[len(q)-1], r)
	})
	return max(0, min(i, len(c.blocks)-1))
}

func (c *group) insert(r *request) {
	if len(c.blocks) == 0 {
		c.blocks = append(c.blocks, &groupBlock{queue{r}, slices.Clone(r.portions)})
		return
	}
	i := c.block(r)
	b := c.blocks[i]
	b.queue.insert(r)
	if n := len(b.queue); n > groupBlockSize {
		c.blocks = slices.Insert(c.blocks, i+1, &groupBlock{queue: slices.Clone(b.queue[n/2:])})
		c.blocks[i+1].findLeast()
		b.queue = slices.Delete(b.queue, n/2, n)
	}
	b.findLeast()
}

func (c *group) remove(r *request) {
	i := c.block(r)
	b := c.blocks[i]
	if b.queue.remove(r); len(b.queue) == 0 {
		c.blocks = slices.Delete(c.blocks, i, i+1)
		return
	}
	b.findLeast()
}

// findLeast brings b.least up to date.
func (b *groupBlock) findLeast() {
	b.least = append(b.least[:0], b.queue[0].portions...)
	for _, r := range b.queue[1:] {
		for i, want := range r.portions {
			b.least[i] = portion{min(b.least[i].units, want.units), min(b.least[i].leases, want.leases)}
		}
	}
}

// within yields those for which there is room, in order.
func (c *group) within(all *rooms) func(yield func(*request) bool) {
	return func(yield func(*request) bool) {
		for _, b := range c.blocks {
			if !all.have(b.least) {
				continue
			}
			for _, r := range b.queue {
				if all.have(r.portions) && !yield(r) {
					return
				}
			}
		}
	}
}

// first returns the first for which there is room; nil if there is none.
func (c *group) first(all *rooms) *request {
	for r := range c.within(all) {
		return r
	}
	return nil
}

// before yields those ahead of r, the last one first. The caller may take out the one that it got.
func (c *group) before(r *request) func(yield func(*request) bool) {
	return func(yield func(*request) bool) {
		for i := len(c.blocks) - 1; i >= 0; i-- {
			for k := c.blocks[i].queue.search(r) - 1; k >= 0; k-- {
				if !yield(c.blocks[i].queue[k]) {
					return
				}
			}
		}
	}
}

// countBefore returns how many are ahead of r.
func (c *group) countBefore(r *request) (n int) {
	for _, b := range c.blocks {
		n += b.queue.search(r)
	}
	return n
}
