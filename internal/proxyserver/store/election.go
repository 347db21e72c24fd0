package store

import (
	"context"
	"errors"
	"time"
)

// ErrNotLeader is the error of a [Lead] that is over: another server leads, or may lead
// already.
var ErrNotLeader = errors.New("this server does not lead")

// Election decides which of several servers on one store leads. Only the leader changes
// the state in the store.
type Election interface {
	// Gain blocks until this server leads: while another server leads, and while the store
	// cannot be reached. The error is the cause of ctx's end, or the reason why this server
	// can never lead. The caller must have closed the Lead of the previous call.
	Gain(ctx context.Context) (Lead, error)

	// ID returns [Store.ID], also on a server that stands by. It is "" until the server
	// has read it from the store.
	ID() string

	// Leader returns who leads, as far as this server knows. It does not block.
	Leader() Leader

	// Close ends the work that Gain has started. Closing it again does nothing.
	Close() error
}

// Leader describes the server that leads.
type Leader struct {
	URL     string    // where clients reach it; empty: no such URL is known
	Since   time.Time // by the leader's wall clock
	Standby int       // how many servers stand by
}

// Lead is the [Store] of the server that leads. Load, Commit, Check and Holds fail with
// [ErrNotLeader] once the lead is over. Close gives the lead up, so that another server
// takes it at once.
type Lead interface {
	Store

	// Holds returns [ErrNotLeader] if another server may lead at the moment of the call.
	// It is cheap, and safe for concurrent use. An answer that waits for no commit, or for
	// one that began before the answer was made, is valid only if Holds returns nil after the
	// answer was made.
	Holds() error

	// Over returns a channel that is closed when the lead is over, or soon after.
	Over() <-chan struct{}
}

// Measurer is an Election or a Store that knows the size of its database.
type Measurer interface {
	// Size returns the size of the database in bytes, and how many of them are in use;
	// zero if the size is not known. It does not block.
	Size() (total, used int64)
}
