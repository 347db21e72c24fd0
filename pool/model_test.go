package pool

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// model is what the rules say of a Set, written down as plainly as can be. It
// knows before each call what the answer must be, follows the changes, allows
// none that the rules do not, and misses none that they demand.
//
// What is said here is cheap, so that it can be said after every step; what
// goes through everything is in [sim.audit].
type model struct {
	now   time.Duration
	fail  func(format string, args ...any)
	count func(what string) // notes that something happened, to know that enough did

	configs    []Config
	pools      map[string]*modelPool // by type, those that drain too
	order      []*modelPool          // the same: as configured, then those that drain
	names      map[string]*modelName // all there are or were
	requests   map[string]*modelRequest
	ended      []Ended
	isEnded    map[string]error // what to tell whoever asks with such an id
	pauses     map[string]Pause // by type
	generation uint64
	held       int
	waiting    int
	arrivals   uint64
	times      calendar

	// What the call under way allows.
	asking    *modelRequest          // a request that is not known yet
	ending    map[*modelLease]Reason // leases that end now, and why
	leaving   map[string]error       // waiters that leave now, and what they are told
	removing  map[string]string      // ids that an operator removes now, and why
	locking   map[string]Locked      // names that are locked now
	settling  map[string]EndedLease  // by request whose last lease has ended
	telling   []Change               // reports that count
	adapting  []Change               // what reports do
	sizing    *modelLease            // the lease whose resize was decided
	sizedFrom int                    // units it had before
	results   map[string]Result      // of requests that end now since they merged with another
	expected  []note                 // what is noted of waiters now, in this order
	told      []*Waiter              // who was noted to follow another, which the grant that follows explains
	// superseded: waiters that a restart superseded, and that are noted as gone next.
	superseded map[string]*modelRequest

	named    map[string]int  // the last K of a counted pool's names, by type
	recalled []string        // names in no pool, as their leases ended
	leases   []*modelLease   // all that are held, in any order, to choose from
	waiters  []*modelRequest // all that wait, likewise
}

type modelPool struct {
	Config
	gone      bool
	limit     int // units that may be in use
	free      []string
	inUse     int            // units that are held
	locked    int            // units
	keys      map[string]int // how many leases and lock delays hold them
	queue     []*modelRequest
	following int
	active    int           // how many of them are active, followers of those that wait included
	hasNext   bool          // one of those can be next
	since     time.Duration // since when
	reports   Reports

	start time.Duration // of the pace, as rhythm has it
	spent int
	paced Pacing // what a restart knows of it

	next  time.Duration // when the pace lets its first waiter go; -1: it does not wait for that alone
	dirty bool          // next, and whether the first waiter fits, is to be looked at
}

type modelName struct {
	pool           *modelPool // nil: configured no more
	lease          *modelLease
	lock           *Locked
	lastGeneration uint64
	lastReason     Reason
}

// String is what a failure says of it.
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
	queued      bool
	attached    int
	active      bool
	activeUntil time.Duration
	keptUntil   time.Duration
	missed      bool // since a restart or a stall
	said        Outcome
	full        bool
	leases      []*modelLease // none while it waits
	joins       *modelRequest // whom it joins when it is noted
	takes       uint64        // the arrival whose place it takes then; zero: its own
	leader      *modelRequest
	followers   []*modelRequest
	result      Result // of its run
	lost        bool   // a lease of it ended otherwise than by a release
	index       int    // in model.waiters
}

// The times that hold for every pool, and what follows from a configuration,
// are said here once more: a model that asked the code would believe it.
const (
	modelProvisional = 30 * time.Second
	modelPlaceKept   = 60 * time.Second
	modelHoldBack    = 10 * time.Second
	modelEndedKept   = 2 * time.Hour
)

// ttl is that of a lease of p for which want was asked.
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

// ends is when l ends if nobody does anything.
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
	return ref.Owner == "" || ref.Owner == l.Owner
}

func (p *modelPool) due() time.Duration { return p.start + time.Duration(p.spent)*p.gap() }

func (p *modelPool) place(r *modelRequest) int {
	return sort.Search(len(p.queue), func(i int) bool { return !stands(p.queue[i], r) })
}

// enter puts a request into the queue, with one connection.
func (m *model) enter(r *modelRequest) {
	m.arrivals++
	r.arrival, r.arrived, r.queued, r.attached = m.arrivals, m.now, true, 1
	if r.takes > 0 {
		m.arrivals--
		r.arrival = r.takes
	}
	if r.joins != nil {
		m.follow(r.joins, r)
	} else {
		r.pool.queue = slices.Insert(r.pool.queue, r.pool.place(r), r)
	}
	r.index = len(m.waiters)
	m.waiters = append(m.waiters, r)
	m.requests[r.ID] = r
	m.waiting++
	m.comes(r)
}

func (m *model) comes(r *modelRequest) {
	r.pool.dirty = true
	if r.active {
		return
	}
	r.active = true
	r.pool.active++
}

func (m *model) goes(r *modelRequest) {
	r.pool.dirty = true
	if r.active {
		r.active = false
		r.pool.active--
	}
}

// compensate is what a restart or a stall does for leases and waiters.
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

// waiter is what a restart has to know of r.
func (r *modelRequest) waiter() Waiter {
	w := Waiter{Request: r.Request, Units: r.units, Arrival: r.arrival, Arrived: r.arrived}
	if r.leader != nil {
		w.Follows = r.leader.ID
	}
	if r.missed {
		w.HoldsUntil, w.KeptUntil = r.activeUntil, r.keptUntil
	}
	return w
}

func (m *model) leave(r *modelRequest) {
	if r.active {
		r.active = false
		r.pool.active--
	}
	if r.leader != nil {
		m.unfollow(r)
	} else if i := r.pool.place(r); i < len(r.pool.queue) && r.pool.queue[i] == r {
		r.pool.queue = slices.Delete(r.pool.queue, i, i+1)
	}
	r.pool.dirty = true
	last := m.waiters[len(m.waiters)-1]
	m.waiters[r.index], last.index = last, r.index
	m.waiters = m.waiters[:len(m.waiters)-1]
	r.queued = false
	delete(m.requests, r.ID)
	m.waiting--
}
