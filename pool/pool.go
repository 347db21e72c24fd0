package pool

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// pool is one pool. A retired pool is configured no more: it has no capacity,
// and exists as long as leases of its type drain.
type pool struct {
	Config
	retired bool
	touched bool // among ledger.touched

	stock stock
	held  ordered[*lease] // by generation: what is held longest comes first
	past  history         // how long leases were held
	ahead outlook         // when those that are held are expected to end

	queue       queue             // all waiters
	wanted      int               // how many names they want together
	active      ordered[*request] // those of them that are served, by arrival
	activeSince time.Duration     // since when there are active waiters, if there are any

	rhythm rhythm
	pacing Pacing // what is durable of it: the last grant while there was a pace
	timer  timer  // armed while only the pace delays the first active waiter

	locked int // names that the lock delay keeps from being granted, after leases of this pool
}

// newPool returns a retired pool.
func newPool(typ string) *pool {
	p := &pool{
		Config:  Config{Type: typ},
		retired: true,
		held: ordered[*lease]{
			less: func(a, b *lease) bool { return a.Generation < b.Generation },
			pos:  func(l *lease) *int { return &l.pos },
		},
		active: ordered[*request]{
			less: func(a, b *request) bool { return a.arrival < b.arrival },
			pos:  func(r *request) *int { return &r.activePos },
		},
	}
	p.timer.on = p
	return p
}

func (p *pool) capacity() int { return len(p.Names) }

// inUse returns how many names are held, or not granted yet because of the lock
// delay.
func (p *pool) inUse() int { return p.held.Len() + p.locked }

// free returns how many names can be granted. Names that were taken out of the
// configuration count as long as they are in use: with enough of those it is
// negative.
func (p *pool) free() int { return min(len(p.stock.free), p.capacity()-p.inUse()) }

// fits reports whether a request for count names can be granted.
func (p *pool) fits(count int) bool { return count <= p.free() }

// over reports whether p is of no use any more.
func (p *pool) over() bool { return p.retired && p.inUse() == 0 }

// tooMany says that p never has more free names than its capacity.
func (p *pool) tooMany(count int) error {
	return fmt.Errorf("%w: %d asked for, %d there", ErrTooMany, count, p.capacity())
}

// due returns when the pace allows the next grant.
func (p *pool) due() time.Duration { return p.rhythm.due(p.Pace) }

// dueIn returns how long the pace still delays the next grant.
func (p *pool) dueIn(now time.Duration) time.Duration { return max(0, p.due()-now) }

// spend notes a grant for count names at now, of which the last has generation.
func (p *pool) spend(now time.Duration, count int, generation uint64) {
	p.rhythm.spend(p.Pace, p.activeSince, now, count, generation)
}

// byGrant returns what is held of p in the order of its grants.
func (p *pool) byGrant() []*lease {
	leases := slices.Clone(p.held.items)
	slices.SortFunc(leases, func(a, b *lease) int { return cmp.Compare(a.Generation, b.Generation) })
	return leases
}

// all yields the leases of p in any order.
func (p *pool) all(yield func(Lease) bool) {
	for _, l := range p.held.items {
		if !yield(l.Lease) {
			return
		}
	}
}

// leases returns the leases of p in the order of their grants.
func (p *pool) leases() []Lease {
	return slices.SortedFunc(p.all, func(a, b Lease) int { return cmp.Compare(a.Generation, b.Generation) })
}

// slot is a name and who has it. After a change of the configuration the lease
// may be one of another pool than the name's.
type slot struct {
	name  string
	pool  *pool // nil: configured no more
	lease *lease
	lock  *lock // not with a lease

	lastGeneration uint64 // of the lease before, and why it ended
	lastReason     Reason
}

// free reports whether nothing keeps the name of a configured pool from being
// granted.
func (sl *slot) free() bool { return sl.lease == nil && sl.lock == nil }

// lock is a name that the lock delay keeps from being granted.
type lock struct {
	Locked
	slot  *slot
	pool  *pool // of the lease that ended
	timer timer
}

// lease is a lease that is held.
type lease struct {
	Lease
	slot    *slot
	pool    *pool    // whose request it served
	request *request // nil for an anonymous one, after a restart
	timer   timer
	pos     int // in pool.held
}

// request is a request that waits, or was granted and has leases left.
type request struct {
	Request
	pool    *pool
	arrival uint64 // position in the order of arrivals
	arrived time.Duration

	// While it waits: the connections that wait with it, and, once there are
	// none, until when it is active and until when its place is kept.
	attached    int
	activeUntil time.Duration
	keptUntil   time.Duration
	missed      bool // nobody has come back for it since a restart or a stall: it holds back, and is not granted
	timer       timer
	activePos   int // in pool.active

	leases []*lease // those that have not ended; none while it waits
}

func (r *request) queued() bool { return len(r.leases) == 0 }

// away reports whether r is granted nothing until its client comes back.
func (r *request) away() bool { return r.missed || !r.pool.active.has(r) }

// waiter returns what a restart has to know of r, which waits.
func (r *request) waiter() Waiter {
	w := Waiter{Request: r.Request, Arrival: r.arrival, Arrived: r.arrived}
	if r.missed {
		w.HoldsUntil, w.KeptUntil = r.activeUntil, r.keptUntil
	}
	return w
}

// values returns the leases of r as they are now.
func (r *request) values() []Lease {
	leases := make([]Lease, len(r.leases))
	for i, l := range r.leases {
		leases[i] = l.Lease
	}
	return leases
}

// queue is the waiters of a pool in the order of their arrival.
type queue []*request

// index returns where r stands, 0 being next.
func (q queue) index(r *request) int {
	i, found := slices.BinarySearchFunc(q, r.arrival, func(r *request, arrival uint64) int {
		return cmp.Compare(r.arrival, arrival)
	})
	if !found {
		panic("pool: waiter is not in its queue")
	}
	return i
}

// push adds r, which arrived after all others.
func (q *queue) push(r *request) { *q = append(*q, r) }

// remove takes r out. At the head, where grants happen, it moves nothing:
// append gets the room back when it next has to grow.
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
