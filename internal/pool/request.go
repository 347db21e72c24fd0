package pool

import (
	"errors"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Why an Acquire gets no lease.
var (
	ErrUnknownType = errors.New("there is no pool of this type")
	ErrTooMany     = errors.New("the pool can never give that many")
	// ErrNoCost refuses a request with a number of items, if the pool does not say what an item
	// costs.
	ErrNoCost = errors.New("the pool has no cost, so a number of items says nothing here: say how many units")
	// ErrNoOvercommit refuses a request that may exceed the limit, if the pool has no
	// overcommit.
	ErrNoOvercommit = errors.New("the pool has no overcommit: ask without it, or let an operator set overcommit: N, the units above the limit, in its configuration")
	// ErrNotInPool refuses a request for a name that the pool does not have.
	ErrNotInPool = errors.New("the pool has no such name")
	// ErrOneName refuses a request for a name and for more than that, or for a name of a counted
	// pool.
	ErrOneName   = errors.New("a request for a name is for one lease of a pool that lists its names, without a key")
	ErrQueueFull = errors.New("too many requests wait for this pool")
	ErrExhausted = errors.New("no lease was free within the wait")
	ErrEnded     = errors.New("the request has ended or was cancelled")
	ErrConflict  = errors.New("the request id stands for another request")
	// ErrNotOwn refuses a request in the place of a lease that another owner holds.
	ErrNotOwn = errors.New("a lease to replace is not the caller's own")
	// ErrUnconfirmed is the [ErrEnded] of a grant that was not confirmed in time: its client
	// may never have received it, and may ask again with another id.
	ErrUnconfirmed error = unconfirmedError{}
	// ErrNamesOvercommit is the [ErrNoOvercommit] of a listed pool, which has no names beyond
	// its list.
	ErrNamesOvercommit error = namesOvercommitError{}
)

// unconfirmedError is [ErrUnconfirmed]. It is a type because a call of fmt.Errorf would run at
// the start of every command, although only a server needs the error.
type unconfirmedError struct{}

func (unconfirmedError) Error() string {
	return ErrEnded.Error() + ": its grant was not confirmed in time"
}
func (unconfirmedError) Is(target error) bool { return target == ErrEnded }

// namesOvercommitError is [ErrNamesOvercommit], as unconfirmedError is [ErrUnconfirmed].
type namesOvercommitError struct{}

func (namesOvercommitError) Error() string {
	return "there is no overcommit of names, only of a pool that has units: ask without it, or let an operator configure units: N in the place of the names"
}
func (namesOvercommitError) Is(target error) bool { return target == ErrNoOvercommit }

// RemovedError says that an operator took the request off the queue. It matches [ErrEnded].
type RemovedError struct{ Reason string }

func (e *RemovedError) Error() string { return "an operator removed the request: " + e.Reason }

// Is makes the error an [ErrEnded].
func (e *RemovedError) Is(target error) bool { return target == ErrEnded }

// Ask is what a request asks for, beside the type of its pool. Its leases keep a copy, and so do the records of
// both in a store.
type Ask struct {
	Count int `json:"count"` // how many units, in total; zero: not given, see [Set.Units]

	// Items is how many things the holder works on. The cost of the pool turns them into units,
	// if HasItems is set and the request gives no count.
	Items int `json:"items,omitempty"`
	// Key, if not empty, is held by one request of the pool at a time, or by several that all
	// read it: by their leases, and by the lock delays of these.
	Key string `json:"key,omitempty"`
	// Name, if not empty, is the name of a listed pool that the request wants, and no other. Such a
	// request is for one unit, and has no Key. In a [Lease] it is hidden by the name that the lease
	// has.
	Name string `json:"name,omitempty"`
	// Variant says what the run of a request does. It decides about merging with others of the
	// same Key: see Coalesce.
	Variant  string   `json:"variant,omitempty"`
	Coalesce Coalesce `json:"coalesce,omitempty"`  // not of an Anonymous request, nor of a reader of its Key
	ReadsKey bool     `json:"reads_key,omitempty"` // false: it writes the Key, and holds that alone

	HasItems bool `json:"has_items,omitempty"`
	// Weighted marks a request whose client knows units: from a counted pool it gets one lease
	// of as many units as it asks for. Any other request for N > 1 gets N leases of one unit
	// each; a request for one gets the units that the pool sets for Unknown.
	Weighted bool `json:"weighted,omitempty"`

	// Also is the other types of a request of several pools, and how much it wants of each: see
	// [JoinAlso]. It is a string, not a slice, since an Ask is compared with ==. Everything else is
	// about its first type. Not with Name, Coalesce or Overcommit, and not of an Anonymous request.
	Also string `json:"also,omitempty"`

	// Priority is how many steps it goes ahead: a step is worth as much waiting as [New] was told.
	Priority int `json:"priority,omitempty"`

	// Overcommit marks a request that goes before all requests without it, does not wait for
	// the pace or the end of a pause, and may exceed the limit by the overcommit of the pool;
	// see [Config]. It waits for its key.
	Overcommit bool `json:"overcommit,omitempty"`
}

// Set makes a what a client asks for that knows units. [leaseapi.CheckAsk] allows it. The error is that of
// [ParseCoalesce].
func (a *Ask) Set(to *leaseapi.Ask) (err error) {
	a.Count, a.Weighted, a.HasItems = to.Count, true, to.Items != nil
	if to.Items != nil {
		a.Items = *to.Items
	}
	a.Key, a.ReadsKey, a.Name = to.Key, to.KeyMode == leaseapi.KeyRead, to.Name
	a.Also, a.Priority, a.Overcommit = JoinAlso(to.Also), to.Priority, to.Overcommit
	a.Variant = to.Variant
	a.Coalesce, err = ParseCoalesce(to.Coalesce)
	return err
}

// Request is the argument of [Set.Acquire]. A request with a known ID must repeat the first
// one, or it gets [ErrConflict]. TTL and Try may differ, and so may the token of the Owner if
// one of the two has none.
type Request struct {
	// ID is random, and made once per request: a request that arrives again has the same ID. It is
	// bound to its caller: see [BindID].
	// The caller chooses the IDs of anonymous requests, such that no client can send them.
	ID    string
	Type  string
	Owner string
	TTL   time.Duration // zero: the pool's default; bounded by the pool's maximum
	Ask

	// Anonymous marks a request whose client knows no ID, as on version 1 of
	// the wire, and so cannot repeat it: its grant is firm at once, its wait ends
	// with its connection, and its ID is not remembered.
	Anonymous bool
	// Share is what its caller may have. It counts when the request comes, and is not durable.
	Share Share
	// Try marks a request that does not wait, or stops waiting if it is queued
	// already: if it cannot be granted at once, it gets [ErrExhausted].
	Try bool
}

// normal returns q with the count that a client without units means if it gives none.
func (q Request) normal() Request {
	if !q.Weighted {
		q.Count = max(q.Count, 1)
	}
	return q
}

// same reports whether q, which has the ID of r, is the same request.
func (r Request) same(q Request) bool {
	return r.Type == q.Type && ownersAgree(r.Owner, q.Owner) && r.Ask == q.Ask
}

// Waiter is the durable form of a request that waits. Times are on the lease clock.
type Waiter struct {
	Request
	Units   int    // how many it wants, fixed when it came, unless its pool became a listed one
	Arrival uint64 // requests with lower numbers came before it
	Arrived time.Duration
	Follows string // the id of the request that it has joined; empty: it stands in the queue

	// PriorityNow is the priority that counts. It differs from that of the Request if an operator
	// moved the request, or if it superseded another.
	PriorityNow int
	Older       time.Duration // how long before Arrived its place was taken, by a request that it superseded
	Overtaken   int           // units that went ahead of it while it did not fit

	// Of a request of several pools. Passed is what went ahead of it, in place of Overtaken: for each
	// pool the parts of what may go ahead of any other waiter there, in billionths, with spaces between.
	// AlsoUnits is Also, with how many units it wants of each pool, fixed likewise.
	Passed    string
	AlsoUnits string

	// Set only while its client has not come back after a restart or a stall: until when it
	// holds back the waiters behind it, and until when its place is kept. Another restart does
	// not move them.
	HoldsUntil, KeptUntil time.Duration
}

// The owner of a lease begins with who acquired it: the id of the caller, which is its name and,
// if an issuer vouches for the name, that issuer. So the caller is as durable as the lease, and
// belongs to the identity of a request id. No part can contain the separators, which are control
// characters.
const (
	ownerSeparator  = "\x00"
	issuerSeparator = "\x1f"
)

// CallerID returns the id of a caller. The issuer is empty if the name is that of a token of the
// server's own file. Two issuers, and the file, may have callers of the same name.
func CallerID(name, issuer string) string {
	if issuer == "" {
		return name
	}
	return name + issuerSeparator + issuer
}

// BindOwner returns the owner that a caller with that id has in a [Request]; the id may be
// empty.
func BindOwner(caller, owner string) string {
	if caller == "" {
		return owner
	}
	return caller + ownerSeparator + owner
}

// CallerOf returns the id of the caller that an owner is bound to; "" if there is none.
func CallerOf(bound string) string {
	caller, _, ok := strings.Cut(bound, ownerSeparator)
	if !ok {
		return ""
	}
	return caller
}

// SplitOwner returns the parts of an owner for people: the name of the caller, without who vouches
// for it, and the owner itself. Two different callers may have the same name: see [CallerOf].
func SplitOwner(bound string) (name, owner string) {
	caller, owner, ok := strings.Cut(bound, ownerSeparator)
	if !ok {
		return "", bound
	}
	name, _, _ = strings.Cut(caller, issuerSeparator)
	return name, owner
}

// ownersAgree reports whether two owners may be the same. An owner without a caller comes from a
// server that required no tokens, and agrees with any caller. So a server may be restarted with
// tokens, or without, and the waiters come back to their places.
func ownersAgree(a, b string) bool {
	caller, otherCaller := CallerOf(a), CallerOf(b)
	_, owner := SplitOwner(a)
	_, other := SplitOwner(b)
	return owner == other && (caller == otherCaller || caller == "" || otherCaller == "")
}

// saysCount reports whether q says how many units it wants. A request that is not Weighted
// always has a count, so its 1 says nothing.
func (q Request) saysCount() bool { return q.Count > 1 || q.Count == 1 && q.Weighted }

// request is a request that waits, or was granted and has leases left.
type request struct {
	Request
	units   int      // how many it wants, fixed when it came, but for recount
	sameID  *request // of another caller
	pool    *pool
	slot    *slot  // the name that it wants; nil: any
	wants   int    // how many leases, while it waits
	key     *key   // while it is in the queue: its own, or that of the name; nil: it has none
	arrival uint64 // position in the order of arrivals
	arrived time.Duration

	// Where it stands: see order.go.
	priority  int           // that counts: as asked for, or as an operator or a request that it superseded left it
	older     time.Duration // how long before its own arrival its place was taken, by a request that it superseded
	rank      rank          // in the queue: the best of it and its followers
	standing  int           // the priority of the one whose rank it is
	overtaken int           // units that went ahead of it while it did not fit

	// While it waits: the connections that wait with it, and, once there are
	// none, until when it is active and until when its place is kept.
	attached    int
	activeUntil time.Duration
	keptUntil   time.Duration
	active      bool // requests behind it may not overtake it
	missed      bool // its client has not come back since a restart or a stall: it is granted nothing, but may hold back others
	timer       timer
	keyPos      int // in key.readers or key.writers
	ownerPos    int // in ledger.waitersOf

	leases []*lease // those that have not ended, in the order of their grants; none while it waits

	leader      *request   // the request that it has joined, whose run stands for its own; nil: none
	followers   []*request // the requests that have joined it, in the order of their arrivals
	adopted     bool       // its followers followed another one, as far as the store knows: see adopt
	activeCount int        // how many of it and its followers are active, while it is in the queue
	result      Result     // of its run, for its followers, while its last lease ends
	lost        bool       // a lease of it expired or was broken: its result is not passed on, and its end does not raise the limit

	shut bool // in the queue: kept out, as isShut says

	// Of a request of several pools: see several.go.
	seats    []*request // in its other pools
	main     *request   // of such a seat: the request
	class    *class     // while it is a candidate, or would be if its pools had room
	kept     *keptLike  // of class; nil: it may still be overtaken
	portions []portion  // what it wants of each of its pools; of a candidate
	passed   []int      // what went ahead of it in each of its pools: parts of what may go ahead of other waiters, in billionths
	stored   string     // the same, as the store knows it

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
		Passed: r.stored, AlsoUnits: r.unitsElsewhere(),
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
