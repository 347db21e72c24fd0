package pool

import (
	"slices"
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
	outlook   outlook // when the held leases are expected to end

	queue     queue // all waiters, without followers
	wanted    int   // how many units the queue wants, in total
	ranked    int   // how many in the queue have another standing than zero
	several   int   // how many in the queue are requests of several pools
	following int   // number of followers, including those of requests that have leases

	// Those that could be next: the active waiters without a key, and of each key those that it does
	// not keep out: see offer. Those that wait for p alone are in next, the others in classes. While the
	// first does not fit, others may overtake it: see overtake.go.
	next      queue
	classes   []*class
	beside    []beside      // the pools of classes, this one too
	nextSince time.Duration // since when there has been one
	idle      bool          // there was none at the end of the last call
	// At the end of the last call the limit, or the pace that follows from it, delayed the first of them.
	limitDelays bool
	keys        map[string]*key // by name: keys that are held or waited for

	rhythm rhythm
	pacing Pacing // the durable part of rhythm: the last grant while there was a pace
	timer  timer  // armed while only the pace delays the waiter that is next

	wantedNames int     // how many of its names waiters want by name
	reserved    []*slot // its names that are reserved, even if they are held still

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
	}
	p.timer.on = p
	return p
}

// byGrant returns the leases of p in the order of their grants.
func (p *pool) byGrant() []*lease {
	return slices.SortedFunc(slices.Values(p.held.items), compareGrants)
}

// waiters returns all requests that wait for p as their first pool: first the followers of requests
// that have leases, in the order of the grants, then the queue, each request before its followers.
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
		if r.main == nil {
			all = append(append(all, r), r.followers...)
		}
	}
	return all
}

// slot is a name with its lease or lock delay. After a change of the configuration the lease
// may belong to another pool than the name.
type slot struct {
	name  string
	pool  *pool // whose configuration has the name; nil: none has
	lease *lease
	lock  *lock // nil while there is a lease

	reserved *reservation // nil: not reserved; a lease or lock delay may be there still
	wanted   *key         // of those that wait for this name; nil: nobody does

	lastGeneration uint64 // of the previous lease, and why that lease ended
	lastReason     Reason
}

// free reports whether the name has neither a lease nor a lock delay nor a reservation.
func (sl *slot) free() bool { return sl.lease == nil && sl.lock == nil && sl.reserved == nil }
