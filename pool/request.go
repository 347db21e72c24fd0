package pool

import (
	"errors"
	"time"
)

// Why an Acquire gets no lease.
var (
	ErrUnknownType = errors.New("there is no pool of this type")
	ErrTooMany     = errors.New("the pool can never give that many")
	// ErrNoCost is the error of a request that says how many items it has, of a pool
	// that does not say what an item costs.
	ErrNoCost = errors.New("the pool has no cost, so a number of items says nothing here: say how many units")
	// ErrNoOvercommit is the error of a request that may exceed the limit, of a pool
	// that lets nobody exceed it.
	ErrNoOvercommit = errors.New("the pool has no overcommit: ask without it, or let an operator set overcommit: N, the units above the limit, in its configuration")
	ErrQueueFull    = errors.New("too many requests wait for this pool")
	ErrExhausted    = errors.New("no lease was free within the wait")
	ErrEnded        = errors.New("the request has ended or was cancelled")
	ErrConflict     = errors.New("the request id stands for another request")
	// ErrUnconfirmed is an [ErrEnded] of a grant that nobody confirmed in time: its
	// client may not have heard of it, and may ask under another id.
	ErrUnconfirmed error = unconfirmedError{}
	// ErrNamesOvercommit is the [ErrNoOvercommit] of a listed pool: there are no names
	// above those in its list.
	ErrNamesOvercommit error = namesOvercommitError{}
)

// unconfirmedError is [ErrUnconfirmed]. (What fmt.Errorf makes of it would be made at
// the start of every command, although only a server needs it.)
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

// RemovedError says that an operator took the request off the queue. It is
// [ErrEnded].
type RemovedError struct{ Reason string }

func (e *RemovedError) Error() string { return "an operator removed the request: " + e.Reason }

// Is makes the error an [ErrEnded].
func (e *RemovedError) Is(target error) bool { return target == ErrEnded }

// Ask is what a request asks for, beside the type of its pool. Its leases keep it.
type Ask struct {
	Count int // how many units, together; zero: not said, see [Set.Units]

	// Items is how many things the holder works on, from which the cost of the pool
	// makes units. It counts if HasItems is set and Count is zero.
	Items int
	// Key, if it is not empty, is held by at most one request of the pool at a time:
	// by its leases, and by their lock delays.
	Key string
	// Variant says what the run of a request does that may merge with others of its
	// Key: see Coalesce.
	Variant  string
	Coalesce Coalesce // not of an Anonymous request

	HasItems bool
	// Weighted marks a request that knows what units are: of a counted pool it gets
	// one lease of as many units as it asks for. Any other request for more than one
	// gets as many leases of one unit each; for one, it gets what is unknown.
	Weighted bool

	// Overcommit marks a request that goes before all that are not so marked, does
	// not wait for the pace or the end of a pause, and may exceed the limit by what
	// the pool allows; see [Config]. It waits for its key.
	Overcommit bool
}

// Request is what an Acquire asks for. A request with a known ID is the same
// request only if it says the same; TTL and Try may differ, and the token of an Owner
// if one of the two has none.
type Request struct {
	// ID is random, and made once per request: the same ID is the same
	// request, however often it arrives. The caller chooses the IDs of anonymous
	// requests, such that no client can send them.
	ID    string
	Type  string
	Owner string
	TTL   time.Duration // zero: the pool's default; bounded by the pool's maximum
	Ask

	// Anonymous marks a request whose client knows no ID, as on version 1 of
	// the wire, and so cannot repeat it: its grant is firm at once, its wait ends
	// with its connection, and its ID is not remembered.
	Anonymous bool
	// Try marks a request that does not wait, or stops waiting if it is queued
	// already: if it cannot be granted at once, it gets [ErrExhausted].
	Try bool
}

// same reports whether q, which has the ID of r, is the same request.
func (r Request) same(q Request) bool {
	return r.Type == q.Type && ownersAgree(r.Owner, q.Owner) && r.Ask == q.Ask
}

// Waiter is a request that is queued, as it outlives a restart. Times are on the
// lease clock.
type Waiter struct {
	Request
	Units   int    // how many it wants, fixed when it came
	Arrival uint64 // those with lower ones came before it
	Arrived time.Duration
	Follows string // the id of the request that it has joined; empty: it stands in the queue

	// Zero, or since a restart or a stall nobody has come back for it: until when
	// it holds back those behind it, and until when its place is kept. Another
	// restart does not move them.
	HoldsUntil, KeptUntil time.Duration
}
