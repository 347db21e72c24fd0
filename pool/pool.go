package pool

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"
)

// pool is one pool. A retired pool is no longer configured and has no capacity. It is kept
// while leases of its type drain, or while it has reports.
type pool struct {
	Config
	retired bool
	touched bool // among ledger.touched

	limit     limit
	stock     []string        // free names of a listed pool; longest free first
	held      ordered[*lease] // by generation: longest held first
	heldUnits int
	past      history // how long leases were held
	outlook   outlook // when the held leases are expected to end

	queue     queue // all waiters, without followers
	wanted    int   // how many units the queue wants, in total
	following int   // number of followers, including those of requests that have leases

	// Candidates for the next grant, in the order of the queue: the active waiters without a
	// key, and the first active waiter of each key that nobody holds. The first candidate is
	// next.
	next      ordered[*request]
	nextSince time.Duration   // since when next has not been empty
	idle      bool            // next was empty at the end of the last call
	keys      map[string]*key // by name: keys that are held or waited for

	rhythm rhythm
	pacing Pacing // the durable part of rhythm: the last grant while there was a pace
	timer  timer  // armed while only the pace delays the waiter that is next

	// What the lock delay withholds after leases of this pool.
	locked int     // units
	locks  []*lock // names; the first to end comes first
}

// newPool returns a retired pool.
func newPool(typ string) *pool {
	p := &pool{
		Config:  Config{Type: typ},
		retired: true,
		idle:    true,
		held: ordered[*lease]{
			less: func(a, b *lease) bool { return a.Generation < b.Generation },
			pos:  func(l *lease) *int { return &l.pos },
		},
		next: ordered[*request]{less: ahead, pos: func(r *request) *int { return &r.nextPos }},
	}
	p.timer.on = p
	return p
}

// inUse returns how many units are held, or withheld by the lock delay.
func (p *pool) inUse() int { return p.heldUnits + p.locked }

// ceiling returns how many units may be in use after a grant.
func (p *pool) ceiling(overcommit bool) int {
	if overcommit {
		return p.limit.now() + p.Overcommit
	}
	return p.limit.now()
}

// free returns how many units can be granted. Units in use count even if they are no longer
// configured, so the result may be negative.
func (p *pool) free(overcommit bool) int {
	units := p.ceiling(overcommit) - p.inUse()
	if p.counted() {
		return units
	}
	return min(units, p.leasesLeft())
}

// leasesLeft returns how many leases can be granted beside those that are held.
func (p *pool) leasesLeft() int {
	if p.counted() {
		return lastMadeUp - p.held.Len() - len(p.locks)
	}
	return len(p.stock)
}

// hasRoom reports whether units may be in use beside inUse others. A request above the limit
// may be in use alone: otherwise it would never be granted, and block the queue.
func (p *pool) hasRoom(units, inUse int, overcommit bool) bool {
	return inUse+units <= p.ceiling(overcommit) || inUse == 0 && units <= p.Capacity()
}

// fits reports whether there is room for r beside what is in use.
func (p *pool) fits(r *request) bool {
	return p.leasesFor(r) <= p.leasesLeft() && p.hasRoom(r.units, p.inUse(), r.Overcommit)
}

// lacks returns how many units must come free before the request whose turn is next fits; zero
// if it fits, or if there is no such request.
func (p *pool) lacks() int {
	next, ok := p.next.first()
	if !ok {
		return 0
	}
	next = cmp.Or(next.turn(), next)
	if p.fits(next) {
		return 0
	}
	return max(1, p.missing(0, next))
}

// missing returns how many units must come free before r fits, if the requests ahead of r want
// before units; zero or less if r fits. If r is next, it fits at the latest when nothing is in
// use: see hasRoom.
func (p *pool) missing(before int, r *request) int {
	units := before + r.units - p.free(r.Overcommit)
	if before == 0 {
		return min(units, p.inUse())
	}
	return units
}

// lockDelayOf returns the lock delay whose end frees the last of the missing units; nil if
// leases must end, too.
func (p *pool) lockDelayOf(missing int) *lock {
	if missing > p.locked {
		return nil
	}
	for _, l := range p.locks {
		if missing -= l.Units; missing <= 0 {
			return l
		}
	}
	return nil
}

// leasesFor returns how many leases r gets.
func (p *pool) leasesFor(r *request) int {
	if p.counted() && (r.Weighted || !r.saysCount()) {
		return 1
	}
	return r.units
}

// over reports whether p is retired and drained.
func (p *pool) over() bool { return p.retired && p.inUse() == 0 }

// tooMany is the error of a request for more units than p's capacity.
func (p *pool) tooMany(units int) error {
	return fmt.Errorf("%w: %d asked for, %d there", ErrTooMany, units, p.Capacity())
}

// never returns why p can never serve r; nil if it can.
func (p *pool) never(r *request) error {
	switch {
	case p.retired:
		return ErrUnknownType
	case r.units > p.Capacity():
		return p.tooMany(r.units)
	case p.leasesFor(r) > MaxCapacity:
		return fmt.Errorf("%w: %d leases of one unit asked for, and a request gets %d at the most", ErrTooMany, p.leasesFor(r), MaxCapacity)
	case r.Overcommit && !p.counted():
		return ErrNamesOvercommit
	case r.Overcommit && p.Overcommit == 0:
		return ErrNoOvercommit
	}
	return nil
}

// pace returns the least time between two grants, at the present limit.
func (p *pool) pace() time.Duration {
	if p.Adapt != nil && p.Hold > 0 {
		return AutoPace(p.Hold, p.limit.now())
	}
	return p.Pace
}

// due returns when the pace allows the next grant.
func (p *pool) due() time.Duration { return p.rhythm.due(p.pace()) }

// dueIn returns how long the pace still delays the next grant.
func (p *pool) dueIn(now time.Duration) time.Duration { return max(0, p.due()-now) }

// spend notes a grant of units at now, whose last lease has generation.
func (p *pool) spend(now time.Duration, units int, generation uint64) {
	p.rhythm.spend(p.pace(), p.nextSince, now, units, generation)
}

// byGrant returns the leases of p in the order of their grants.
func (p *pool) byGrant() []*lease {
	return slices.SortedFunc(slices.Values(p.held.items), compareGrants)
}

// waiters returns all requests that wait: first the followers of requests that have leases, in
// the order of the grants, then the queue, each request before its followers.
func (p *pool) waiters() []*request {
	all := make([]*request, 0, len(p.queue)+p.following)
	if p.following > 0 {
		for _, l := range p.byGrant() {
			if l.request != nil && l.request.leases[0] == l {
				all = append(all, l.request.followers...)
			}
		}
	}
	for _, r := range p.queue {
		all = append(append(all, r), r.followers...)
	}
	return all
}

// all yields the leases of p in any order.
func (p *pool) all(yield func(Lease) bool) {
	for _, l := range p.held.items {
		if !yield(l.Lease) {
			return
		}
	}
}

// allLocked yields the lock delays of p in the order in which they end.
func (p *pool) allLocked(yield func(Locked) bool) {
	for _, l := range p.locks {
		if !yield(l.Locked) {
			return
		}
	}
}

// slot is a name with its lease or lock delay. After a change of the configuration the lease
// may belong to another pool than the name.
type slot struct {
	name  string
	pool  *pool // whose configuration has the name; nil: none has
	lease *lease
	lock  *lock // nil while there is a lease

	lastGeneration uint64 // of the previous lease, and why that lease ended
	lastReason     Reason
}

// free reports whether the name has neither a lease nor a lock delay.
func (sl *slot) free() bool { return sl.lease == nil && sl.lock == nil }

// key is a key of a pool that somebody holds or waits for.
type key struct {
	name  string
	lease *lease // a lease that holds it; nil: no lease does, at most lock delays
	lock  *lock  // the lock delay that ends last, perhaps over already; nil while nobody holds the key
	holds int    // how many leases and lock delays hold it; if more than 1, all of one request
	queue queue  // the waiters with this key, without followers

	active  ordered[*request] // those of the queue that are active
	offered *request          // the one in pool.next: the first active one, while nobody holds the key
}

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
	pool    *pool    // that granted it
	request *request // nil after a restart if the request was anonymous
	timer   timer
	pos     int // in pool.held
}

// compareGrants orders leases as they were granted.
func compareGrants(a, b *lease) int { return cmp.Compare(a.Generation, b.Generation) }

// valuesOf returns leases as they are now.
func valuesOf(held []*lease) []Lease {
	leases := make([]Lease, len(held))
	for i, l := range held {
		leases[i] = l.Lease
	}
	return leases
}

// request is a request that waits, or was granted and has leases left.
type request struct {
	Request
	units   int // how many it wants, fixed when it came
	pool    *pool
	key     *key   // while it is in the queue; nil: it has none
	arrival uint64 // position in the order of arrivals
	arrived time.Duration

	// While it waits: the connections that wait with it, and, once there are
	// none, until when it is active and until when its place is kept.
	attached    int
	activeUntil time.Duration
	keptUntil   time.Duration
	active      bool // requests behind it may not overtake it
	missed      bool // its client has not come back since a restart or a stall: it is granted nothing, but may hold back others
	timer       timer
	nextPos     int // in pool.next
	keyPos      int // in key.active

	leases []*lease // those that have not ended, in the order of their grants; none while it waits

	leader      *request // the request that it has joined, whose run stands for its own; nil: none
	followers   queue    // the requests that have joined it
	activeCount int      // how many of it and its followers are active, while it is in the queue
	result      Result   // of its run, for its followers
	lost        bool     // a lease of it expired or was broken: its result is not passed on, and its end does not raise the limit

	said Outcome // the outcome reported so far
	full bool    // one of its leases ended while the pool was in full use
}

func (r *request) queued() bool { return len(r.leases) == 0 }

// ahead reports whether a stands before b in the queue: requests that may exceed the limit go
// first, otherwise the order of arrival counts.
func ahead(a, b *request) bool {
	if a.Overcommit != b.Overcommit {
		return a.Overcommit
	}
	return a.arrival < b.arrival
}

// away reports whether r is granted nothing until its client comes back.
func (r *request) away() bool { return r.missed || !r.active }

// lead returns the request that waits or runs for r: its leader, or else r itself.
func (r *request) lead() *request {
	if r.leader != nil {
		return r.leader
	}
	return r
}

// turn returns the request that gets the leases when r, which is in the queue, is next: r
// itself, or if r is away its first follower that is not; nil if all are away.
func (r *request) turn() *request {
	if r.active && !r.missed {
		return r
	}
	for _, f := range r.followers {
		if f.active && !f.missed {
			return f
		}
	}
	return nil
}

// waiter returns the durable state of r, which waits.
func (r *request) waiter() Waiter {
	w := Waiter{Request: r.Request, Units: r.units, Arrival: r.arrival, Arrived: r.arrived}
	if r.leader != nil {
		w.Follows = r.leader.ID
	}
	if r.missed {
		w.HoldsUntil, w.KeptUntil = r.activeUntil, r.keptUntil
	}
	return w
}

// values returns the leases of r as they are now.
func (r *request) values() []Lease { return valuesOf(r.leases) }

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
