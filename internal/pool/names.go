package pool

import (
	"slices"
	"strconv"
	"strings"
)

// Numbered returns the names of a pool whose n resources have none of their own:
// typ-0 to typ-(n-1).
func Numbered(typ string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = madeUp(typ, i)
	}
	return names
}

// lastMadeUp is the last K of the names TYPE-K of a counted pool; the next is 1
// again. A lease is over and forgotten long before its name comes again.
const lastMadeUp = 1_000_000

// madeUp returns the name typ-k.
func madeUp(typ string, k int) string { return typ + "-" + strconv.Itoa(k) }

// MadeUpFor returns the type of the counted pool that would make up this name; "" if none
// would.
func MadeUpFor(name string) (typ string) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || i == len(name)-1 || strings.Trim(name[i+1:], "0123456789") != "" {
		return ""
	}
	return name[:i]
}

// Naming is the last name that a counted pool has made up. It outlives the pool: if the names
// began anew, a late release of an earlier lease by its name could end a later one.
type Naming struct {
	Type string
	Last int // the K of TYPE-K
}

// wasMadeUp reports whether a counted pool may have made up name. Of names whose leases ended
// long ago only the type is known.
func (g *ledger) wasMadeUp(name string) bool {
	return g.named[MadeUpFor(name)] > 0
}

// take returns names for count leases of r, whose pool must have as many left. A listed pool takes
// them from its stock. A counted pool makes up names that are not in use.
func (g *ledger) take(r *request, count int) []string {
	p := r.pool
	if !p.counted() {
		return g.takeFromStock(r, count)
	}
	names := make([]string, 0, count)
	last := g.named[p.Type]
	for len(names) < count {
		last = last%lastMadeUp + 1
		if name := madeUp(p.Type, last); !g.used(name) {
			names = append(names, name)
		}
	}
	g.named[p.Type] = last
	return names
}

// takeFromStock takes the name that r wants out of the stock, or else count names: first those that
// no waiter wants by name.
func (g *ledger) takeFromStock(r *request, count int) []string {
	p := r.pool
	switch {
	case r.slot != nil:
		p.unstock(r.slot)
		return []string{r.Name}
	case p.wantedNames == 0: // as nearly always
		taken := p.stock[:count]
		p.stock = p.stock[count:]
		return taken
	}
	var taken, wanted []string
	seen := 0
	for ; len(taken) < count && seen < len(p.stock); seen++ {
		if name := p.stock[seen]; g.slots[name].wanted == nil {
			taken = append(taken, name)
		} else {
			wanted = append(wanted, name)
		}
	}
	n := count - len(taken)
	p.stock = p.stock[seen-len(wanted[n:]):]
	copy(p.stock, wanted[n:])
	return append(taken, wanted[:n]...)
}

// unstock takes the name of sl out of the stock.
func (p *pool) unstock(sl *slot) {
	i := slices.Index(p.stock, sl.name)
	p.stock = slices.Delete(p.stock, i, i+1)
}

// free puts the name of sl into the stock of its pool. A name in no pool is recalled. A name that
// is reserved is out of the pool.
func (g *ledger) free(sl *slot) {
	switch {
	case sl.reserved != nil:
		return
	case sl.pool == nil:
		g.recall(sl)
		return
	}
	sl.pool.stock = append(sl.pool.stock, sl.name)
	g.touch(sl.pool)
	g.offerName(sl)
}

// refill sets the stock of p to those of p's names that are free. Names that were free before
// stay first.
func (g *ledger) refill(p *pool) {
	p.stock = slices.DeleteFunc(p.stock, func(name string) bool { return g.slots[name].pool != p })
	free := make(map[string]bool, len(p.stock))
	for _, name := range p.stock {
		free[name] = true
	}
	for _, name := range p.Names {
		if g.slots[name].free() && !free[name] {
			p.stock = append(p.stock, name)
		}
	}
}

// maxRecalled is how many names in no pool are remembered while nobody holds them, so that a
// holder that was cut off hears why its lease is lost. 10,000 names take 2 MB.
const maxRecalled = 10_000

// recalled holds the names in no pool, in the order in which their leases ended, or in which
// they were removed: those of counted pools, and those that are no longer configured.
type recalled struct {
	names []string
	limit int
}

// push adds name. If there are too many, it returns the oldest, for the caller to forget; else "".
func (r *recalled) push(name string) (forgotten string) {
	r.names = append(r.names, name)
	if len(r.names) > r.limit {
		forgotten, r.names = r.names[0], r.names[1:]
	}
	return forgotten
}

// recall remembers how the last lease of a free name in no pool ended, and forgets the oldest
// such name if there are too many.
func (g *ledger) recall(sl *slot) {
	forgotten := g.recalled.push(sl.name)
	if old := g.slots[forgotten]; old != nil && old.pool == nil && old.free() {
		delete(g.slots, forgotten)
	}
}
