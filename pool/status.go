package pool

import "time"

// State is where a request stands.
type State string

// The states.
const (
	StateQueued  State = "queued"
	StateGranted State = "granted"
	StateEnded   State = "ended"
)

// Status is what is known of a request.
type Status struct {
	State  State
	Leases []Lease // granted: those that have not ended

	// The rest is for a request that is queued.
	Place, Length   int // 1 is next; waiters of the pool, this one included
	InUse, Capacity int
	Estimate        time.Duration // how long it may still take; zero: unknown
	NextGrantIn     time.Duration // how long the pace holds back the pool's next grant; zero: it does not
	Waited          time.Duration
	Oldest          *Lease // the lease of the pool that is held longest; nil if none is
}

// Status returns where a request stands; false if the id is not known.
func (s *Set) Status(now time.Duration, id string) (Status, bool) {
	s.Advance(now)
	r := s.requests[id]
	switch {
	case r == nil:
		return Status{State: StateEnded}, s.ended.has(id)
	case !r.queued():
		return Status{State: StateGranted, Leases: r.values()}, true
	}
	p := r.pool
	st := Status{
		State: StateQueued,
		Place: p.queue.index(r) + 1, Length: len(p.queue),
		InUse: p.held.Len(), Capacity: p.capacity(),
		NextGrantIn: p.dueIn(s.now),
		Waited:      s.now - r.arrived,
	}
	st.Estimate = p.estimate(s.now, st.Place, r.Count)
	if l, ok := p.held.first(); ok {
		oldest := l.Lease
		st.Oldest = &oldest
	}
	return st, true
}

// estimate is how long the waiter at place may still wait, if all before it
// want as many names as it does: per average hold, as many names become free as
// the pool has, and the pace counts out what is free.
func (p *pool) estimate(now time.Duration, place, count int) time.Duration {
	free := max(0, min(len(p.stock.free), p.capacity()-p.held.Len()))
	names := float64(place) * float64(count)
	missing := max(0, names-float64(free))
	if missing > 0 && !p.hold.known {
		return 0
	}
	freed := float64(p.hold.value) * missing / float64(p.capacity())
	paced := float64(p.dueIn(now)) + float64(p.Pace)*(names-float64(count))
	return time.Duration(min(max(freed, paced), float64(DefaultTTL)*1000)) // far beyond what anybody waits, and far from an overflow
}

// PoolStatus is the state of one pool.
type PoolStatus struct {
	Type          string
	Capacity      int // zero: configured no more, and its leases drain
	InUse         int
	Waiting       int
	OldestWaiting time.Duration // how long the first in the queue has waited
	NextGrantIn   time.Duration // how long the pace holds back the next grant; zero: it does not
	Leases        []Lease       // what is held longest comes first
}

// Pools returns the state of every pool, in the order of the configuration;
// after them those which are configured no more but have leases.
func (s *Set) Pools(now time.Duration) []PoolStatus {
	all := s.Totals(now)
	for i := range all {
		all[i].Leases = s.types[all[i].Type].leases()
	}
	return all
}

// Totals is [Set.Pools] without the leases, which takes no longer for many
// leases than for few.
func (s *Set) Totals(now time.Duration) []PoolStatus {
	s.Advance(now)
	var all []PoolStatus
	for _, p := range s.pools {
		if p.retired && p.held.Len() == 0 {
			continue
		}
		st := PoolStatus{
			Type: p.Type, Capacity: p.capacity(), InUse: p.held.Len(), Waiting: len(p.queue),
			NextGrantIn: p.dueIn(s.now),
		}
		if len(p.queue) > 0 {
			st.OldestWaiting = s.now - p.queue[0].arrived
		}
		all = append(all, st)
	}
	return all
}
