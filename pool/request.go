package pool

import (
	"errors"
	"fmt"
	"time"
)

// Why an Acquire gets no lease.
var (
	ErrUnknownType = errors.New("there is no pool of this type")
	ErrTooMany     = errors.New("the pool can never give that many")
	ErrQueueFull   = errors.New("too many requests wait for this pool")
	ErrExhausted   = errors.New("no lease was free within the wait")
	ErrEnded       = errors.New("the request has ended or was cancelled")
	ErrConflict    = errors.New("the request id stands for another request")
	// ErrUnconfirmed is an [ErrEnded] of a grant that nobody confirmed in time: its
	// client may not have heard of it, and may ask under another id.
	ErrUnconfirmed = fmt.Errorf("%w: its grant was not confirmed in time", ErrEnded)
)

// RemovedError says that an operator took the request off the queue. It is
// [ErrEnded].
type RemovedError struct{ Reason string }

func (e *RemovedError) Error() string { return "an operator removed the request: " + e.Reason }

// Is makes the error an [ErrEnded].
func (e *RemovedError) Is(target error) bool { return target == ErrEnded }

// Request is what an Acquire asks for.
type Request struct {
	// ID is random, and made once per request: the same ID is the same
	// request, however often it arrives. The caller chooses the IDs of anonymous
	// requests, such that no client can send them.
	ID    string
	Type  string
	Count int // how many names, together; less than 1 counts as 1
	Owner string
	TTL   time.Duration // zero: the pool's default; bounded by the pool's maximum

	// Anonymous marks a request whose client knows no ID, as on version 1 of
	// the wire, and so cannot repeat it: its grant is firm at once, its wait ends
	// with its connection, and its ID is not remembered.
	Anonymous bool
	// Try marks a request that does not wait, or stops waiting if it is queued
	// already: if it cannot be granted at once, it gets [ErrExhausted].
	Try bool
}

// Waiter is a request that is queued, as it outlives a restart. Times are on the
// lease clock.
type Waiter struct {
	Request
	Arrival uint64 // those with lower ones came before it
	Arrived time.Duration

	// Zero, or since a restart or a stall nobody has come back for it: until when
	// it holds back those behind it, and until when its place is kept. Another
	// restart does not move them.
	HoldsUntil, KeptUntil time.Duration
}
