package store

import (
	"context"
	"errors"
	"time"
)

// ErrNotLeader is the error of a [Lead] that is over: another server leads, or
// may lead by now.
var ErrNotLeader = errors.New("this server does not lead")

// Election decides which of several servers on one store leads: only the leader
// changes what the store holds.
type Election interface {
	// Gain waits until this server leads, for as long as another one does, or the
	// store cannot be reached. The error is the cause of ctx's end, or says why this
	// server cannot ever lead. The lead that it returned before must be closed.
	Gain(ctx context.Context) (Lead, error)

	// ID is [Store.ID], also of a server that stands by. It is "" until the store
	// has told.
	ID() string

	// Leader says who leads, as far as this server knows. It does not block.
	Leader() Leader

	// Close ends what Gain has started. Closing it again does nothing.
	Close() error
}

// Leader says who leads.
type Leader struct {
	URL     string    // where clients reach it; empty: nobody leads, or nobody knows who
	Since   time.Time // by the leader's wall clock
	Standby int       // how many servers stand by
}

// Lead is the [Store] of the server that leads. All its methods fail with
// [ErrNotLeader] once the lead is over. Its Close gives the lead up, so that
// another server takes it at once.
type Lead interface {
	Store

	// Holds reports whether this server leads at the moment of the call, with
	// [ErrNotLeader] if another server may lead. It is cheap, and safe for
	// concurrent use. An answer that no commit stands behind holds only if Holds
	// says so after the answer was made.
	Holds() error

	// Over is closed when the lead is over, or soon after.
	Over() <-chan struct{}
}

// Measurer is an Election or a Store that tells numbers of its own.
type Measurer interface {
	// Size returns the size of the database in bytes, and how much of that is in
	// use; zero if it is not known. It does not block.
	Size() (total, used int64)
}
