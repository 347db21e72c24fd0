package pool

import (
	"slices"
	"time"
)

// Set is the pools of one server; see the package comment for what it
// guarantees. [New] makes one.
type Set struct {
	now        time.Duration
	generation uint64 // the last one given
	arrivals   uint64 // number of the last waiter
	settings   uint64 // number of the last timer set

	pools    []*pool          // as configured, and retired ones after them
	types    map[string]*pool // the same
	slots    map[string]*slot // all names there are or were
	requests map[string]*request
	ended    tombstones
	timers   ordered[*timer]

	held, waiting int
	touched       []*pool // where a waiter may fit by now
	changes       []Change
}

// pool is one pool. A retired one is configured no more: it has no capacity,
// and is there as long as leases of its type drain.
type pool struct {
	Config
	retired bool
	touched bool

	free  []*slot           // what is free longest comes first
	held  ordered[*lease]   // by generation: what is held longest comes first
	queue queue             // all waiters
	there ordered[*request] // those waiters that are there, by arrival
	since time.Duration     // since when somebody is there, if anybody is
	hold  average           // how long leases were held

	rhythm rhythm
	timer  timer // set while nothing but the pace holds back the first that is there
}

func (p *pool) capacity() int { return len(p.Names) }

// fits reports whether a request for count names can be granted. Leases of
// names that were taken out of the configuration count until they end.
func (p *pool) fits(count int) bool {
	return count <= len(p.free) && p.held.Len()+count <= p.capacity()
}

// slot is a name and who has it. After a change of the configuration the lease
// may be one of another pool than the name's.
type slot struct {
	name  string
	pool  *pool // nil: configured no more
	lease *lease

	lastGeneration uint64 // of the lease before, and why it ended
	lastReason     Reason
}

// lease is a lease that is held.
type lease struct {
	Lease
	slot    *slot
	pool    *pool    // whose request it served
	request *request // nil for one that cannot be repeated, after a restart
	timer   timer
	pos     int // in pool.held
}

// Advance does everything that is due at now: leases end, places are lost,
// ended ids are forgotten, and then what is free by now is granted. What is
// overdue is done in the order in which it was due, but all grants are made at
// now: a grant in the past might be over before anybody knew of it.
func (s *Set) Advance(now time.Duration) {
	s.now = max(s.now, now)
	for {
		t, ok := s.timers.first()
		if !ok || t.due > s.now {
			break
		}
		s.timers.remove(t)
		t.on.timeout(s)
	}
	for len(s.ended.order) > 0 && s.ended.order[0].Until <= s.now {
		s.forget()
	}
	s.serve()
}

// Next returns when Advance has something to do if nothing else happens before;
// false if never.
func (s *Set) Next() (time.Duration, bool) {
	t, ok := s.timers.first()
	if len(s.ended.order) == 0 {
		if !ok {
			return 0, false
		}
		return t.due, true
	}
	next := s.ended.order[0].Until
	if ok {
		next = min(next, t.due)
	}
	return next, true
}

// Busy returns how many leases are held and how many requests wait, over all
// pools.
func (s *Set) Busy() (held, waiting int) { return s.held, s.waiting }

// Snapshot returns what must outlive the server. It is what the changes so far
// add up to.
func (s *Set) Snapshot() Snapshot {
	snap := Snapshot{Clock: s.now, Generation: s.generation, Ended: slices.Clone(s.ended.order)}
	for _, p := range s.pools {
		snap.Leases = append(snap.Leases, p.leases()...)
	}
	return snap
}

// touch notes that a waiter of p may fit by now.
func (s *Set) touch(p *pool) {
	if !p.touched {
		p.touched = true
		s.touched = append(s.touched, p)
	}
}

// serve grants what can be granted. Of the waiters that are there the first
// goes first; if it does not fit, or it is not time yet, nobody overtakes it.
func (s *Set) serve() {
	for _, p := range s.touched {
		p.touched = false
		for {
			r, ok := p.there.first()
			if !ok || !p.fits(r.Count) {
				s.timers.remove(&p.timer)
				break
			}
			if due := p.due(); due > s.now {
				s.schedule(&p.timer, due)
				break
			}
			s.dequeue(r)
			s.grant(r)
		}
	}
	s.touched = s.touched[:0]
}

// timeout says that the pace holds back nobody any more.
func (p *pool) timeout(s *Set) { s.touch(p) }
