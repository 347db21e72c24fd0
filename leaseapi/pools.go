package leaseapi

import "time"

// Query parameters of GET [PathPools]. Its answers are pages. With [ParamType] they are of this pool alone, whose
// first page has its names, too.
const (
	ParamLimit = "limit" // most leases and waiters of the page; [PageSize] if absent or larger
	ParamAfter = "after" // Next of the previous page; absent: the first page
)

// PageSize is the maximum number of leases and waiters together in a page, and of pools.
// A page may have fewer and still not be the last, since it stays well below [MaxBody].
const PageSize = 500

// PoolsReply is the answer to GET [PathPools]. A pool that does not fit into a page
// continues in the next one, with the same type and other leases and waiters. Each page
// shows the state at its own moment.
type PoolsReply struct {
	Pools []Pool `json:"pools"`
	Next  string `json:"next,omitempty"` // [ParamAfter] of the next page; empty: this is the last

	Leader *Leader `json:"leader,omitempty"` // nil: the server always leads
}

// Pool is the state of one pool.
type Pool struct {
	Type          string    `json:"type"`
	Capacity      int       `json:"capacity"`               // in units
	Limit         int       `json:"limit,omitempty"`        // units that may be in use now; zero: the capacity
	InUse         int       `json:"in_use"`                 // in units
	Counted       bool      `json:"counted,omitempty"`      // a lease has a made-up name, and as many units as it asked for
	Unit          string    `json:"unit,omitempty"`         // what a unit is, for people
	Overcommit    int       `json:"overcommit,omitempty"`   // units that may be in use beyond the limit
	MayOvertake   int       `json:"may_overtake,omitempty"` // units that may go ahead of a waiter which does not fit; zero: strictly in order
	Waiting       int       `json:"waiting"`
	Following     int       `json:"following,omitempty"`      // requests that have joined another, which waits or runs
	OldestWaiting Duration  `json:"oldest_waiting,omitempty"` // age of the oldest waiter
	LockDelayed   int       `json:"lock_delayed,omitempty"`   // part of in_use that nobody holds: kept by a lock delay after a lease that was not released
	LockedFor     Duration  `json:"locked_for,omitempty"`     // how long until all of them can be granted again
	LockedUntil   time.Time `json:"locked_until,omitzero"`    // the same, by the server's clock
	NextGrantIn   Duration  `json:"next_grant_in,omitempty"`  // zero: as soon as a lease is free
	NextGrantAt   time.Time `json:"next_grant_at,omitzero"`   // the same, by the server's clock
	Paused        string    `json:"paused,omitempty"`         // why an operator paused the pool; empty: not paused
	PausedFor     Duration  `json:"paused_for,omitempty"`
	PausedSince   time.Time `json:"paused_since,omitzero"` // the same, by the server's clock
	Reserved      int       `json:"reserved,omitempty"`    // names that people have taken out; those that nobody holds are part of in_use
	// Reservations are the first [ListedReservations] of them, the oldest first.
	Reservations []Reservation `json:"reservations,omitempty"`
	// Names are the first [ListedNames] that a listed pool has, in the order of its configuration, if the pool was
	// asked for by its type.
	Names  []Name      `json:"names,omitempty"`
	Leases []PoolLease `json:"leases"`
	// Waiters are the waiters in the order of the queue, followed by the requests that
	// Following counts: at most the first 1,000 of both together.
	Waiters []Waiter `json:"waiters,omitempty"`
	// Peaks summarise the last leases of a counted pool that were released with a peak;
	// nil: no such release since the server started.
	Peaks *Peaks `json:"peaks,omitempty"`
	// Adapt is set if the holders' reports move the limit. Wall is the limit at which it
	// was last cut; zero if the limit has exceeded it since. Moved is the last move.
	Adapt bool       `json:"adapt,omitempty"`
	Wall  int        `json:"wall,omitempty"`
	Moved *LimitMove `json:"limit_moved,omitempty"`
	// Tally counts the reports on leases of the pool, by limit, ascending.
	Tally []Tally `json:"tally,omitempty"`
}

// ListedNames is the maximum number of names in a [Pool].
const ListedNames = 1000

// Name is a name that a listed pool has.
type Name struct {
	Name   string   `json:"name"`
	State  string   `json:"state"`             // one of the constants below
	FreeIn Duration `json:"free_in,omitempty"` // with a lock delay: when it is over
}

// The states of a name: the first of them that keeps others out.
const (
	NameIsHeld     = "held"
	NameIsLocked   = "lock delay" // its last lease was not released
	NameIsReserved = "reserved"   // by a person
	NameIsFree     = "free"
)

// LimitMove is the last move of the limit of a pool.
type LimitMove struct {
	From   int       `json:"from"`
	To     int       `json:"to"`
	At     time.Time `json:"at"`
	Age    Duration  `json:"age"`
	Owner  string    `json:"owner,omitempty"`  // of the lease whose report moved the limit
	Token  string    `json:"token,omitempty"`  // name of the token of that lease
	Detail string    `json:"detail,omitempty"` // of the report
}

// Waiter is one request that is not granted yet.
type Waiter struct {
	RequestID string    `json:"request_id,omitempty"` // empty: of a version-1 client
	Place     int       `json:"place"`                // 1 is next
	Owner     string    `json:"owner,omitempty"`
	Token     string    `json:"token,omitempty"` // name of the token of the request
	Count     int       `json:"count"`           // in units
	Key       string    `json:"key,omitempty"`
	KeyMode   string    `json:"key_mode,omitempty"` // as in [PoolLease]
	Name      string    `json:"name,omitempty"`     // that it wants; empty: any
	Follows   string    `json:"follows,omitempty"`  // id of the request that it has joined
	Age       Duration  `json:"age"`
	Since     time.Time `json:"since"`
	Away      bool      `json:"away,omitempty"` // its client is not connected: others go first
	// Reason is why it waits; none, if only its client is away.
	Reason WaitReason `json:"reason,omitzero"`
	Order

	Estimate    Duration `json:"estimate,omitempty"` // as in [Queued]
	EstimateMax Duration `json:"estimate_max,omitempty"`
}

// ListedReservations is how many reservations of a pool are listed: more than people read.
const ListedReservations = 100

// Reservation is a name that a person has taken out of its pool.
type Reservation struct {
	Name   string    `json:"name"`
	Owner  string    `json:"owner,omitempty"` // who took it
	Token  string    `json:"token,omitempty"` // name of the token that took it
	Reason string    `json:"reason"`
	Age    Duration  `json:"age"`
	Since  time.Time `json:"since"`
	// EndsIn and EndsAt are when it ends by itself; zero: when it is given back.
	EndsIn Duration  `json:"ends_in,omitempty"`
	EndsAt time.Time `json:"ends_at,omitzero"`
	// HeldBy is the owner of the lease that still has the name, until it ends; empty: none has.
	HeldBy string `json:"held_by,omitempty"`
}

// KeyWords returns a key and its mode in words, such as "staging (read)"; empty if there is no key.
func KeyWords(key, mode string) string {
	if key != "" && mode == KeyRead {
		return key + " (" + mode + ")"
	}
	return key
}
