package pool

import (
	"cmp"
	"math"
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
	past      history // how long leases were held
	outlook   outlook // when the held leases are expected to end

	queue     queue // all waiters, without followers
	wanted    int   // how many units the queue wants, in total
	ranked    int   // how many in the queue have another standing than zero
	several   int   // how many in the queue are requests of several pools
	following int   // number of followers, including those of requests that have leases

	// Candidates for the next grant, in the order of the queue: the active waiters without a
	// key, and of each key those that it does not keep out: see offer. The first candidate is
	// next. While it does not fit, others may overtake it: see overtake.go.
	next      ordered[*request]
	nextSince time.Duration   // since when next has not been empty
	idle      bool            // next was empty at the end of the last call
	keys      map[string]*key // by name: keys that are held or waited for

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
		next: ordered[*request]{less: ahead, pos: func(r *request) *int { return &r.nextPos }},
	}
	p.timer.on = p
	return p
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

// key is a key of a pool that somebody holds or waits for. Either readers hold it, or one writer.
// Those that wait for a certain name wait as writers of a key of their own, which is held while the
// name is not free.
type key struct {
	slot   *slot // of that name, which alone says whether the key is held; nil: an ordinary key
	name   string
	leases []*lease // that hold it, in the order of their grants; none: at most lock delays do
	lock   *lock    // the lock delay that ends last, perhaps over already; nil while nobody holds the key
	holds  int      // how many leases and lock delays hold it; if more than 1, all of readers, or all of one request
	read   bool     // while it is held: by readers
	queue  queue    // the waiters with this key, without followers

	readers, writers ordered[*request] // those of the queue that are active
	offered          []*request        // those in pool.next
	spare            []*request        // room for the next offered
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
	units   int // how many it wants, fixed when it came, but for recount
	pool    *pool
	slot    *slot  // the name that it wants; nil: any
	key     *key   // while it is in the queue: its own, or that of the name; nil: it has none
	arrival uint64 // position in the order of arrivals
	arrived time.Duration

	// Where it stands: see order.go.
	priority  int           // that counts: as asked for, or as an operator or a request that it superseded left it
	older     time.Duration // how long before its own arrival its place was taken, by a request that it superseded
	rank      rank          // in the queue: the best of it and its followers
	standing  int           // the priority of the one whose rank it is
	overtaken int           // units that went ahead of it while it did not fit
	passed    int           // of several pools, in place of overtaken: parts of what may go ahead of other waiters, in billionths

	// While it waits: the connections that wait with it, and, once there are
	// none, until when it is active and until when its place is kept.
	attached    int
	activeUntil time.Duration
	keptUntil   time.Duration
	active      bool // requests behind it may not overtake it
	missed      bool // its client has not come back since a restart or a stall: it is granted nothing, but may hold back others
	timer       timer
	nextPos     int // in pool.next
	keyPos      int // in key.readers or key.writers

	leases []*lease // those that have not ended, in the order of their grants; none while it waits

	leader      *request   // the request that it has joined, whose run stands for its own; nil: none
	followers   []*request // the requests that have joined it, in the order of their arrivals
	activeCount int        // how many of it and its followers are active, while it is in the queue
	result      Result     // of its run, for its followers
	lost        bool       // a lease of it expired or was broken: its result is not passed on, and its end does not raise the limit

	shut bool // in the queue: kept out, as isShut says

	// Of a request of several pools: see several.go.
	seats []*request // in its other pools
	main  *request   // of such a seat: the request

	said Outcome // the outcome reported so far
	full bool    // one of its leases ended while the pool was in full use
}

func (r *request) queued() bool { return len(r.leases) == 0 }

// away reports whether r is granted nothing until its client comes back.
func (r *request) away() bool {
	w := r.whole()
	return w.missed || !w.active
}

// keptOut reports whether r holds nobody up: its key is not free for it, one of its pools is shut, or
// reservations leave fewer names than it wants.
func (r *request) keptOut() bool {
	w := r.whole()
	return w.shut || w.key.keptOut(w)
}

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
	if !r.away() {
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
	w := Waiter{
		Request: r.Request, Units: r.units, Arrival: r.arrival, Arrived: r.arrived,
		PriorityNow: r.priority, Older: r.older, Overtaken: r.overtaken,
		Passed: r.passed, AlsoUnits: r.unitsElsewhere(),
	}
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

// Pause makes the pool of a type grant nothing until [Set.Resume], except to requests with
// Overcommit: other requests wait, and are told the reason. Leases stay held, and can be
// renewed and released. A pause outlives restarts, and the pool itself if its type is removed
// from the configuration and put back. Pausing again changes the reason.
//
// It returns [ErrUnknownType] if there is no such pool.
func (s *Set) Pause(now time.Duration, typ string, act Act) (Pause, error) {
	s.Advance(now)
	p := s.types[typ]
	if p == nil || p.retired {
		return Pause{}, ErrUnknownType
	}
	before, paused := s.pauses[typ]
	act = act.orNone()
	defer s.begin(act)()
	pause := Pause{Type: typ, Reason: act.Reason, Since: s.now}
	if paused {
		pause.Since = before.Since
	}
	s.pauses[typ] = pause
	s.note(Paused).Pause = &pause
	s.touch(p) // serve stops its timer
	s.reopen(p)
	s.serve()
	return pause, nil
}

// Resume ends a pause: free units go to the waiters, in their order and at the pool's pace. It
// returns the pause that it ended, which is zero if the pool was not paused, or
// [ErrUnknownType] if there is neither a pool nor a pause.
func (s *Set) Resume(now time.Duration, typ string, act Act) (Pause, error) {
	s.Advance(now)
	pause, paused := s.pauses[typ]
	p := s.types[typ]
	switch {
	case !paused && (p == nil || p.retired):
		return Pause{}, ErrUnknownType
	case !paused:
		return Pause{}, nil
	}
	defer s.begin(act)()
	delete(s.pauses, typ)
	s.note(Resumed).Pause = &pause
	if p != nil {
		s.touch(p)
		s.reopen(p)
	}
	s.serve()
	return pause, nil
}

// AutoPace returns hold/capacity, the pace of a pool whose units are all in use, each for hold.
// Grants then come as evenly as they can, and as many per hour as without a pace. It is zero if
// hold or capacity is not positive.
func AutoPace(hold time.Duration, capacity int) time.Duration {
	if hold <= 0 || capacity <= 0 {
		return 0
	}
	return hold / time.Duration(capacity) // rounded down: a longer pace would cost grants
}

// rhythm says when the next grant of a pool is due: n paces after the last grant, of n units,
// was due. The last grant may have been made later than it was due, because no unit was free or
// the caller's timer was slow. If every late grant delayed all that follow, a pool whose units
// come free at odd moments would lose a little with each, and grant less than capacity/hold.
//
// The time by which a grant was late is made up for at once. So it is bounded, or the rhythm
// would save up the very burst that it must prevent:
//
//   - Only time in which a waiter was next counts as late. An idle pool saves up nothing: when
//     fifty jobs come to it at once, the first is granted at once, and each other a full pace
//     after the one before it.
//   - At most half a pace counts. Then any span of time has at most span/pace + 1/2 grants of
//     one unit each, rounded up. For a pool of 50 units that are held for 20 minutes, this is
//     three grants a minute, where the mean is 2.5. If a whole pace counted, it would be four.
//     If nothing counted, the pool would lose up to twice as many grants when holds vary.
type rhythm struct {
	start      time.Duration // when the last grant counts as made
	count      int           // for how many units; zero: there was none
	generation uint64        // of its last lease
}

// due returns when pace allows the next grant.
func (r rhythm) due(pace time.Duration) time.Duration {
	n := time.Duration(r.count)
	if n > 0 && pace > math.MaxInt64/n {
		pace = math.MaxInt64 / n // too far away to come
	}
	return later(r.start, n*pace)
}

// spend notes a grant of units at now, in a pool that has had a waiter that is next since
// nextSince.
func (r *rhythm) spend(pace, nextSince, now time.Duration, units int, generation uint64) {
	*r = rhythm{start: max(r.due(pace), nextSince, now-pace/2), count: units, generation: generation}
}

// resume notes a lease from before a restart. Leases come in the order of their generations.
func (r *rhythm) resume(l *Lease, now time.Duration) {
	if l.Generation > r.generation {
		*r = rhythm{start: min(l.Granted, now), count: l.together(), generation: l.Generation}
	}
}
