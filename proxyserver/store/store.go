// Package store says what of a lease server is durable. A [Store] keeps it:
// package bolt does so in a directory.
//
// A server without a Store keeps its state in memory only.
package store

import (
	"errors"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// ErrInUse is the error of opening a store that another server uses.
var ErrInUse = errors.New("another server uses it")

// Store keeps the state of a server. Commit and Load are not called at the same
// time, nor either of them twice at the same time.
type Store interface {
	// Load returns all that is durable, from which a server begins: at its start,
	// and each time that it takes the lead.
	Load() (pool.Snapshot, error)

	// Commit makes b durable, all of it or nothing, and returns when it is. It
	// does not keep b. After an error nobody knows whether b is durable: the
	// caller has no use for what it has in memory, and begins again from Load.
	Commit(b Batch) error

	// Close gives up the store. Closing it again does nothing.
	Close() error
}

// Batch is what one transaction makes durable.
type Batch struct {
	// Changes are in the order in which they were made. [pool.Dropped] changes
	// nothing durable, since waiters are not.
	Changes []pool.Change

	Clock      time.Duration // the lease clock
	Generation uint64        // the last one given, Changes included
}
