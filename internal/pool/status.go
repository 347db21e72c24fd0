package pool

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Order is where the order of the queue puts a waiter, and why.
type Order struct {
	Priority    int // that counts: the one by which it stands where it stands
	Higher      int // how many waiters ahead of it stand there by a higher priority
	Overtaken   int // units that went ahead of it while it did not fit; of several pools: as many of this one as counted for all of them
	MayOvertake int // how many may in all, by the present configuration
}

// order returns the order of r at a place of the queue.
func (p *pool) order(r *request, place int) Order {
	o := Order{Priority: r.standing, Higher: p.higher(place-1, r)}
	if o.Overtaken, o.MayOvertake = p.overtakes(r); r.Overcommit {
		o.MayOvertake = 0
	}
	return o
}

// State is where a request stands.
type State string

// The states.
const (
	StateQueued  State = leaseapi.StateQueued
	StateJoined  State = leaseapi.StateJoined // it waits for the end of another's run, which is under way
	StateGranted State = leaseapi.StateGranted
	StateEnded   State = leaseapi.StateEnded
)

// Status is what is known of a request.
type Status struct {
	State  State
	Leases []Lease // granted: those that have not ended

	// The rest is for a request that waits. If it has joined another, place, reason and
	// estimates are those of the other. If that runs already, the place and the estimates are
	// zero, and Reason is of kind [leaseapi.WaitJoined].
	Place, Length          int                 // 1 is next; waiters of the pool, this one included
	InUse, Limit, Capacity int                 // units of the pool
	Units                  int                 // how many it wants
	Order                                      // where the order puts it
	Follows                string              // the id of the request that it has joined; empty: none
	Name                   string              // the name that it wants; empty: any
	Key                    string              // may be empty
	ReadsKey               bool                // as in [Ask]
	Reason                 leaseapi.WaitReason // why it waits: see [WaiterStatus]
	Estimate               time.Duration       // how long it may still take if leases are held as long as usual
	EstimateMax            time.Duration       // and if they are held as long as the longest lately; both zero: unknown
	Oldest                 *Lease              // the lease of the pool that is held longest; nil if none is

	Why error // ended: the error of an Acquire with this id
}

// Status returns where a request stands; false if the id is not known.
func (s *Set) Status(now time.Duration, id string) (Status, bool) {
	s.Advance(now)
	r, e := s.requests.get(id), s.ended.get(id)
	switch {
	case r == nil && e != nil:
		return Status{State: StateEnded, Why: e.why()}, true
	case r == nil:
		return Status{}, false
	case !r.queued():
		return Status{State: StateGranted, Leases: r.values()}, true
	}
	return s.standing(r), true
}

// Brief is [Set.Status] of a request that waits, without what depends on those ahead of it: its order,
// why it waits, and for how long. So it costs the same in a queue of any length. It returns false if the
// request does not wait.
func (s *Set) Brief(now time.Duration, id string) (Status, bool) {
	s.Advance(now)
	r := s.requests.get(id)
	if r == nil || !r.queued() {
		return Status{}, false
	}
	return r.brief(), true
}

// brief is Brief of r, which waits.
func (r *request) brief() Status {
	p, lead := r.pool, r.lead()
	st := p.status(r)
	if st.Length = len(p.queue); lead.queued() {
		st.State, st.Place = StateQueued, p.queue.index(lead)+1
	} else {
		st.State, st.Reason.Kind = StateJoined, leaseapi.WaitJoined
	}
	if lead != r {
		st.Follows = lead.ID
	}
	return st
}

// standing returns where r, which waits, stands.
func (g *ledger) standing(r *request) Status {
	st, lead := r.brief(), r.lead()
	if !lead.queued() {
		return st
	}
	whole := g.describe(lead, st.Place, st.Length)
	whole.Units, whole.Follows = st.Units, st.Follows
	return whole
}

// oldest returns the lease of p that is held longest; nil if none is.
func (p *pool) oldest() *Lease {
	l, ok := p.held.first()
	if !ok {
		return nil
	}
	oldest := l.Lease
	return &oldest
}

// prospect returns where r, which is not queued, would stand if it were, with its client
// connected.
func (g *ledger) prospect(r *request) Status {
	p := r.pool
	place := p.queue.search(r) + 1
	r.key, r.active, r.shut = p.keyOf(r), true, g.isShut(r)
	return g.describe(r, place, len(p.queue)+1)
}

// describe returns the status of r at a place of a queue of that length.
func (g *ledger) describe(r *request, place, length int) Status {
	p := r.pool
	before := p.before(place)
	st := p.status(r)
	st.State, st.Place, st.Length, st.Reason = StateQueued, place, length, g.reason(p, before, r)
	st.Order = p.order(r, place)
	st.Estimate, st.EstimateMax = g.estimate(p, place, before, r)
	return st
}

// status returns the part of r's status that does not depend on its place.
func (p *pool) status(r *request) Status {
	return Status{
		InUse: p.inUse(), Limit: p.limit.now(), Capacity: p.Capacity(),
		Units: r.units, Key: r.Key, ReadsKey: r.ReadsKey, Name: r.Name, Oldest: p.oldest(),
	}
}

// ExhaustedError is the [ErrExhausted] of a request with Try, or whose wait is over. Status says where the
// request stood in the queue, or would stand.
type ExhaustedError struct{ Status Status }

func (e *ExhaustedError) Error() string { return ErrExhausted.Error() }

// Is makes the error an [ErrExhausted].
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// PoolStatus is the state of one pool.
type PoolStatus struct {
	Type          string
	Counted       bool           // it is a counted pool
	Unit          string         // what a unit is, for people; may be empty
	Capacity      int            // units; zero: no longer configured, and units are still in use
	Limit         int            // how many units may be in use now
	Overcommit    int            // by how many units the limit may be exceeded
	MayOvertake   int            // how many units may go ahead of a waiter that does not fit
	Overtaken     int            // how many went ahead of the waiter that is next
	InUse         int            // units that are held or LockDelayed, and those of reserved names, as far as they leave fewer than Limit
	Reserved      []Reserved     // its names that people have taken out, in the order in which they did
	LockDelayed   int            // units that nobody holds, and that are not granted yet: see [Config]
	LockedFor     time.Duration  // how long until the last of them may be granted again
	Waiting       int            // requests that stand in the queue
	Following     int            // requests that have joined a request in the queue, or a run under way
	OldestWaiting time.Duration  // how long the first in the queue has waited
	OldestHeld    time.Duration  // how long the longest held lease has been held
	Lacks         int            // how many units must come free before the waiter that is next fits; zero: it fits, or there is none
	NextGrantIn   time.Duration  // how long the pace holds back the next grant; zero: it does not
	LongestHold   time.Duration  // [Set.Pool] only: the longest hold lately, and a little more; a lease held for longer is overdue; zero: unknown
	Paused        *Pause         // nil: not paused
	Leases        []Lease        // longest held first; [Set.Totals] leaves them out
	Waiters       []WaiterStatus // in the order of the queue, and then the followers; [Set.Totals] leaves them out
	// What was reported of its leases: see [Reports].
	Adapt bool // reports move the limit
	Wall  int
	Moved Move
	Tally []Tally
}

// ListedWaiters is how many waiters of a pool [Set.Waiters] lists: as many as people read. It
// bounds the answer for a full queue.
const ListedWaiters = 1000

// WaiterStatus is a request that waits, for people.
type WaiterStatus struct {
	ID        string // as [Request] has it
	Anonymous bool
	Place     int    // 1 is next; followers come after the last of the queue
	Follows   string // the id of the request that it has joined; empty: it stands in the queue itself
	Owner     string
	Units     int    // how many it wants
	Order            // of a request that has joined another: its own priority alone
	Name      string // that it wants; empty: any
	Key       string
	ReadsKey  bool
	Arrived   time.Duration
	Away      bool // it is granted nothing until its client comes back

	// Reason is why it waits; none if it waits only because its client is away.
	Reason                leaseapi.WaitReason
	Estimate, EstimateMax time.Duration // as in [Status]
}

// waiters lists part of the requests that wait for p; see [Set.Waiters].
func (g *ledger) waiters(p *pool, after, most int) []WaiterStatus {
	all := p.byPlace()
	after = max(after, 0)
	if after >= len(all) || most <= 0 {
		return nil
	}
	part := make([]WaiterStatus, 0, min(len(all)-after, most))
	before := 0
	if after < len(p.queue) {
		before = p.before(after + 1)
	}
	for i, r := range all[after : after+cap(part)] {
		part = append(part, g.waiterStatus(p, r, after+i+1, before))
		if r.leader == nil && !r.keptOut() {
			before += r.units
		}
	}
	return part
}

// waiterStatus describes r, at that place of the list of p; the requests ahead of r want before
// units.
func (g *ledger) waiterStatus(p *pool, r *request, place, before int) WaiterStatus {
	w := WaiterStatus{
		ID: r.ID, Anonymous: r.Anonymous, Place: place, Owner: r.Owner, Units: r.units,
		Name: r.Name, Key: r.Key, ReadsKey: r.ReadsKey,
		Arrived: r.arrived, Away: r.away(),
	}
	if r.leader != nil {
		w.Follows, w.Reason.Kind, w.Priority = r.leader.ID, leaseapi.WaitJoined, r.priority
		return w
	}
	w.Reason, w.Order = g.reason(p, before, r), p.order(r, place)
	w.Estimate, w.EstimateMax = g.estimate(p, place, before, r)
	return w
}

// byPlace returns all requests that wait for p: the queue, and then the followers.
func (p *pool) byPlace() queue {
	if p.following == 0 {
		return p.queue
	}
	all := slices.Grow(slices.Clone(p.queue), p.following)
	for _, r := range p.waiters() {
		if r.leader != nil {
			all = append(all, r)
		}
	}
	return all
}

// Totals returns the state of every pool without its leases and waiters: the configured pools
// in their order, then those that still have units in use. The cost does not depend on the
// number of leases; it looks at the arrival of each waiter.
func (s *Set) Totals(now time.Duration) []PoolStatus {
	s.Advance(now)
	var all []PoolStatus
	for _, p := range s.pools {
		if !p.over() {
			all = append(all, s.totals(p))
		}
	}
	return all
}

// totals returns the state of p without leases and waiters.
func (s *Set) totals(p *pool) PoolStatus {
	st := PoolStatus{
		Type: p.Type, Counted: p.counted(), Unit: p.Unit, Capacity: p.Capacity(), Limit: p.limit.now(), Overcommit: p.Overcommit,
		InUse: p.inUse(), LockDelayed: p.locked, Waiting: len(p.queue), Following: p.following, Reserved: p.reservations(),
		Lacks: p.lacks(), NextGrantIn: p.dueIn(s.now), MayOvertake: p.bound(),
	}
	if next, ok := p.first(); ok {
		st.Overtaken, _ = p.overtakes(next)
	}
	reports := p.limit.reports
	st.Adapt, st.Wall, st.Moved, st.Tally = p.Adapt != nil, reports.Wall, reports.Moved, slices.Clone(reports.Tally)
	if pause, paused := s.pauseOf(p); paused {
		st.Paused = &pause
	}
	if l, ok := p.held.first(); ok {
		st.OldestHeld = s.now - l.Granted
	}
	if n := len(p.locks); n > 0 {
		st.LockedFor = p.locks[n-1].Until - s.now
	}
	for _, r := range p.queue { // with priorities, the first need not be the oldest
		st.OldestWaiting = max(st.OldestWaiting, s.now-r.arrived)
	}
	return st
}

// Part selects leases and waiters of a pool.
type Part struct {
	AfterGeneration uint64 // leases with a greater generation
	Leases          int    // of these, the most to list
	AfterPlace      int    // waiters at places after this one
	Waiters         int    // of these, the most to list
}

// Pool returns the state of one pool with a part of its leases and waiters; false if there is
// no pool of this type. Unlike [Set.Waiters] it may list more than [ListedWaiters].
func (s *Set) Pool(now time.Duration, typ string, part Part) (PoolStatus, bool) {
	s.Advance(now)
	p := s.types[typ]
	if p == nil || p.over() {
		return PoolStatus{}, false
	}
	st := s.totals(p)
	if p.outlook.past.count > 0 {
		_, st.LongestHold = p.outlook.past.spread()
	}
	st.Leases = s.Leases(now, typ, part.AfterGeneration, part.Leases)
	st.Waiters = s.waiters(p, part.AfterPlace, part.Waiters)
	return st, true
}

// Leases returns the leases of a type whose generation is greater than after, longest held
// first, and no more than most. It copies only these, so a long list can be read in parts.
func (s *Set) Leases(now time.Duration, typ string, after uint64, most int) []Lease {
	s.Advance(now)
	p := s.types[typ]
	if p == nil || most <= 0 {
		return nil
	}
	var held []*lease
	for _, l := range p.held.items {
		if l.Generation > after {
			held = append(held, l)
		}
	}
	slices.SortFunc(held, compareGrants)
	leases := valuesOf(held[:min(len(held), most)])
	for i := range leases {
		leases[i].Draining = !p.counted() && s.slots[leases[i].Name].pool != p
	}
	return leases
}

// Waiters returns the waiters of a type at places after the given one, in the order of the
// queue, and no more than most. It lists only the first [ListedWaiters] of a queue.
func (s *Set) Waiters(now time.Duration, typ string, after, most int) []WaiterStatus {
	s.Advance(now)
	p := s.types[typ]
	if p == nil {
		return nil
	}
	return s.waiters(p, after, min(most, ListedWaiters-max(after, 0)))
}

// Found is what [Set.Find] found: a lease, or a waiter.
type Found struct {
	Type   string
	Lease  *Lease
	Waiter *WaiterStatus
}

// Find returns the leases and waiters that match, pool by pool, each pool in the order of
// [Set.Pool], and no more than most. match is given the owner, the request id, and the name of
// a lease or the empty string for a waiter. The cost grows with all leases and waiters.
func (s *Set) Find(now time.Duration, most int, match func(owner, requestID, name string) bool) (found []Found) {
	s.Advance(now)
	for _, p := range s.pools {
		for _, l := range p.byGrant() {
			if len(found) == most {
				return found
			}
			if match(l.Owner, l.RequestID, l.Name) {
				value := l.Lease
				found = append(found, Found{Type: p.Type, Lease: &value})
			}
		}
		for i, r := range p.byPlace() {
			if len(found) == most {
				return found
			}
			if match(r.Owner, r.ID, "") {
				before := 0
				if r.leader == nil {
					before = p.before(i + 1)
				}
				w := s.waiterStatus(p, r, i+1, before)
				found = append(found, Found{Type: p.Type, Waiter: &w})
			}
		}
	}
	return found
}
