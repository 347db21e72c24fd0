// Package store says what of a lease server is durable. A [Store] keeps it: package
// bolt does so in a directory, and package etcd for several servers, with an [Election].
//
// A server without a Store keeps its state in memory only.
package store

import (
	"errors"
	"io"
	"time"

	"github.com/leasectl/leasectl/pool"
)

var (
	// ErrOpen is the error of a store that a server cannot begin with. The error that
	// wraps it says why.
	ErrOpen = errors.New("open store")
	// ErrInUse is the error of opening a store that another server uses.
	ErrInUse = errors.New("another server uses it")
	// ErrDamaged is the error of a store whose content is not what was committed.
	// The error that wraps it says what is wrong, and where.
	ErrDamaged = errors.New("it is damaged")
	// ErrGone is the error of a store that was removed, moved or replaced while
	// it was open. Another server may have begun on a new store in its place.
	ErrGone = errors.New("it is gone")
)

// Store keeps the state of a server. Its methods are not called at the same
// time, nor any of them twice at the same time.
type Store interface {
	// Load returns all that is durable, from which a server begins: at its start,
	// and each time that it takes the lead.
	Load() (pool.Snapshot, error)

	// ID returns the random name that the store got when it was made, and keeps
	// for its life. It is known after Load.
	ID() string

	// Commit makes b durable, all of it or nothing, and returns when it is. It
	// does not keep b. After an error nobody knows whether b is durable: the
	// caller has no use for what it has in memory, and begins again from Load.
	Commit(b Batch) error

	// Check reports whether the store is still where it was opened, with an error
	// such as [ErrGone] if not. It is cheap: a server calls it each second.
	Check() error

	// Close gives up the store. Closing it again does nothing.
	Close() error
}

// Backuper is a Store that can be copied while it is in use.
type Backuper interface {
	// Backup returns a copy of the store as of the last commit, and its size in
	// bytes. It may be called at any time before Close, also while a commit is
	// under way. The caller closes the copy.
	Backup() (copied io.ReadCloser, size int64, err error)
}

// Batch is what one transaction makes durable.
type Batch struct {
	// Changes are in the order in which they were made.
	Changes []pool.Change

	// Steps are where Changes may be divided if they are too many for one
	// transaction: each call of the pools is a step, and Steps has where it ends
	// in Changes, in ascending order. The last end may be left out.
	Steps []int

	Clock      time.Duration // the lease clock
	Generation uint64        // the last one given, Changes included
}
