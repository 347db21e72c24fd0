package pool

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// model is the rules of a Set, written as plainly as possible. It knows before each call what
// the answer must be. It follows the changes, and fails on a change that the rules do not
// allow, and on a missing one that they demand.
//
// The checks here are cheap, so that they can run after every step. Checks that go through
// everything are in [sim.audit].
type model struct {
	now   time.Duration
	wall  time.Time
	fail  func(format string, args ...any)
	count func(what string) // notes that something happened, to know that it happened often enough

	configs    []Config
	pools      map[string]*modelPool // by type; draining ones, too
	order      []*modelPool          // the same: as configured, then those that drain
	names      map[string]*modelName // all that exist or existed
	requests   map[string]*modelRequest
	ended      []Ended
	isEnded    map[string]error // the error of a later request with this id
	pauses     map[string]Pause // by type
	generation uint64
	held       int
	waiting    int
	severals   int // how many that wait want several pools
	arrivals   uint64
	times      calendar

	// What the call under way allows.
	asking    *modelRequest          // a request that is not known yet
	ending    map[*modelLease]Reason // leases that end now, and why
	leaving   map[string]error       // waiters that leave now, and what they are told
	vanishing map[string]bool        // reserved names that no pool has now
	giving    map[string]bool        // reservations that end now, by name
	removing  map[string]string      // ids that an operator removes now, and why
	counting  map[string]bool        // waiters that want another number of units now
	locking   map[string]Locked      // names that are locked now
	settling  map[string]EndedLease  // by request whose last lease has ended
	telling   []Change               // reports that count
	adapting  []Change               // what reports do
	sizing    *modelLease            // the lease whose resize was decided
	sizedFrom int                    // units it had before
	results   map[string]Result      // of requests that end now because they merged with another
	expected  []note                 // changes of waiters that must be noted now, in this order
	told      []*Waiter              // requests that were noted as followers; the grant that comes next explains why
	// superseded: waiters that a restart superseded; the next changes drop them.
	superseded map[string]*modelRequest

	named    map[string]int // the last K of a counted pool's names, by type
	recalled []string       // names in no pool, as their leases ended
	passed   []*Waiter      // those noted as overtaken; the grant or the end of a wait that comes next explains why
	aging    time.Duration
	leases   []*modelLease   // all that are held, in any order, for random choices
	waiters  []*modelRequest // all that wait, in any order, for random choices
}

type modelPool struct {
	Config
	m         *model
	severals  int // how many in the queue want several pools
	gone      bool
	limit     int // units that may be in use
	free      []string
	names     map[string]*modelName // of the model
	out       map[string]bool       // its names that are reserved
	inUse     int                   // units that are held
	locked    int                   // units
	keys      map[string]int        // how many leases and lock delays hold them
	written   map[string]int        // how many of these are of writers
	queue     []*modelRequest
	following int
	active    int           // how many in the queue are active, including followers of those
	hasNext   bool          // one of these can be next
	delays    bool          // at the end of the last step the limit or its pace delayed the first of them
	since     time.Duration // since when
	reports   Reports

	start time.Duration // of the pace, as rhythm has it
	spent int
	paced Pacing // the durable part

	next  time.Duration // when the pace allows a grant to its first waiter; -1: the pace does not delay it, or not alone
	dirty bool          // next, and whether the first waiter fits, must be checked
	aging time.Duration
}

type modelName struct {
	pool           *modelPool // nil: no longer configured
	lease          *modelLease
	lock           *Locked
	reserved       *Reservation
	lastGeneration uint64
	lastReason     Reason
}

// String describes n in failures.
func (n *modelName) String() string {
	switch {
	case n == nil:
		return "no such name"
	case n.lease == nil:
		return fmt.Sprintf("nobody; before: %d, %s", n.lastGeneration, n.lastReason)
	}
	return fmt.Sprintf("%+v", n.lease.Lease)
}

type modelLease struct {
	Lease
	request *modelRequest // nil if it cannot be repeated
	index   int           // in model.leases
}

type modelRequest struct {
	Request
	units       int
	pool        *modelPool
	arrival     uint64
	arrived     time.Duration
	placed      time.Duration // when its place was taken, by itself or by a request that it superseded
	priority    int
	overtaken   int
	passed      []int  // of several pools: what overtook it in each, as billionths of what may overtake others
	stored      string // the same, as it was noted last
	more        []want // of its other pools
	all         []want // see wants
	used        int    // units of its last lease of the first type that ended
	queued      bool
	attached    int
	active      bool
	activeUntil time.Duration
	keptUntil   time.Duration
	missed      bool // since a restart or a stall
	said        Outcome
	full        bool
	leases      []*modelLease // none while it waits
	joins       *modelRequest // the request to join when its arrival is noted
	takes       *modelRequest // the request whose place it takes then; nil: none
	leader      *modelRequest
	followers   []*modelRequest
	adopted     bool   // they followed another one when they were noted last
	result      Result // of its run
	lost        bool   // one of its leases ended without a release, or was broken
	index       int    // in model.waiters
}

// The times for every pool, and what follows from a configuration, are written here a second
// time: a model that used the code would repeat its errors.
const (
	modelProvisional = 30 * time.Second
	modelPlaceKept   = 60 * time.Second
	modelHoldBack    = 10 * time.Second
	modelEndedKept   = 2 * time.Hour
)

// ttl is the TTL of a lease of p whose request asked for want.
func (p *modelPool) ttl(want time.Duration) time.Duration {
	if want == 0 {
		want = p.DefaultTTL
	}
	if want == 0 {
		want = 4 * time.Hour
	}
	if p.MaxTTL > 0 {
		want = min(want, p.MaxTTL)
	}
	return want
}

// ends is when l ends if no call changes that.
func (l *modelLease) ends() time.Duration {
	if l.ReleaseAt != 0 {
		return l.ReleaseAt
	}
	return l.Expires
}

// isMeant reports whether ref means l.
func (l *modelLease) isMeant(ref Ref) bool {
	if ref.Generation != 0 && ref.Generation != l.Generation {
		return false
	}
	if ref.Owner != "" && ref.Owner != l.Owner {
		return false
	}
	return ref.KnownAt.IsZero() || l.At.Sub(ref.KnownAt) <= 2*time.Second
}

// why is why ref does not mean l.
func (l *modelLease) why(ref Ref) Reason {
	if (ref.Generation == 0 || ref.Generation == l.Generation) && (ref.Owner == "" || ref.Owner == l.Owner) {
		return Later
	}
	return Other
}

func (p *modelPool) due() time.Duration { return p.start + time.Duration(p.spent)*p.gap() }

func (p *modelPool) place(r *modelRequest) int {
	return sort.Search(len(p.queue), func(i int) bool { return !stands(p.queue[i], r) })
}

// enter puts a request into the queue, with one connection.
func (m *model) enter(r *modelRequest) {
	m.arrivals++
	r.arrival, r.queued, r.attached = m.arrivals, true, 1
	if r.takes != nil && r.units <= r.takes.units {
		m.arrivals--
		m.takePlace(r, r.takes)
	}
	if r.joins != nil {
		m.follow(r.joins, r)
	} else {
		for _, w := range r.wants() {
			w.pool.queue = slices.Insert(w.pool.queue, w.pool.place(r), r)
		}
	}
	m.countSeveral(r, 1)
	r.index = len(m.waiters)
	m.waiters = append(m.waiters, r)
	m.requests[r.ID] = r
	m.waiting++
	m.comes(r)
}

func (m *model) comes(r *modelRequest) {
	r.setDirty()
	if r.active {
		return
	}
	r.active = true
	for _, w := range r.wants() {
		w.pool.active++
	}
}

func (r *modelRequest) setDirty() {
	for _, w := range r.wants() {
		w.pool.dirty = true
	}
}

func (m *model) goes(r *modelRequest) {
	r.setDirty()
	if r.active {
		r.active = false
		for _, w := range r.wants() {
			w.pool.active--
		}
	}
}

// compensate does what a restart or a stall does for leases and waiters.
func (m *model) compensate() {
	for _, l := range m.leases {
		if l.Broken != "" || l.Extended {
			continue
		}
		l.Extended, l.Expires = true, m.now+l.TTL
		if l.Provisional {
			l.Expires = m.now + modelProvisional
		}
		m.times.lease(l)
	}
	for _, r := range m.waiters {
		if r.attached > 0 || r.missed {
			continue
		}
		r.missed, r.activeUntil, r.keptUntil = true, m.now+modelHoldBack, m.now+modelPlaceKept
		m.comes(r)
		m.times.alone(r)
	}
}

// waiter is the durable state of r.
func (r *modelRequest) waiter() Waiter {
	w := Waiter{Request: r.Request, Units: r.units, Arrival: r.arrival, Arrived: r.arrived,
		PriorityNow: r.priority, Older: r.arrived - r.placed, Overtaken: r.overtaken, Passed: r.stored, AlsoUnits: r.alsoUnits()}
	if r.leader != nil {
		w.Follows = r.leader.ID
	}
	if r.missed {
		w.HoldsUntil, w.KeptUntil = r.activeUntil, r.keptUntil
	}
	return w
}

func (m *model) leave(r *modelRequest) {
	m.goes(r)
	if r.leader != nil {
		m.unfollow(r)
	} else {
		for _, w := range r.wants() {
			if i := slices.Index(w.pool.queue, r); i >= 0 {
				w.pool.queue = slices.Delete(w.pool.queue, i, i+1)
			}
		}
	}
	m.countSeveral(r, -1)
	last := m.waiters[len(m.waiters)-1]
	m.waiters[r.index], last.index = last, r.index
	m.waiters = m.waiters[:len(m.waiters)-1]
	r.queued = false
	delete(m.requests, r.ID)
	m.waiting--
}
