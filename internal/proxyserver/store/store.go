// Package store defines what a lease server makes durable. A [Store] keeps that state:
// package bolt in a
// directory, package replicated for several servers, with an [Election].
//
// A server without a Store keeps its state in memory only.
package store

import (
	"errors"
	"io"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

var (
	// ErrOpen is the error of a store from which a server cannot begin. The error that
	// wraps it says why.
	ErrOpen = errors.New("open store")
	// ErrInUse is the error of opening a store that another server uses.
	ErrInUse = errors.New("another server uses it")
	// ErrDamaged is the error of a store whose content differs from the commits. The
	// error that wraps it says what is wrong, and where.
	ErrDamaged = errors.New("it is damaged")
	// ErrGone is the error of a store that was removed, moved or replaced while
	// it was open. Another server may already serve from a new store in its place.
	ErrGone = errors.New("it is gone")
	// ErrLost is the error of a store that is as it was before some of its commits: a backup
	// was restored, or a database went on from a copy that lacked them.
	ErrLost = errors.New("it has lost commits")
)

// Store keeps the state of a server. The server makes one call at a time; only
// [Backuper.Backup] may run beside another call.
type Store interface {
	// Load returns all durable state. A server begins from that state: at its start, and
	// each time that it takes the lead.
	Load() (pool.Snapshot, error)

	// ID returns the random name that the store got when it was made, and keeps for its
	// life. The name is known after Load.
	ID() string

	// Commit makes b durable, and returns when it is durable. It does not retain b. After
	// an error b may be durable or not, and a divided batch (see [Batch]) may be durable
	// in part: the caller must discard its state in memory, and begin again from Load.
	Commit(b Batch) error

	// Check returns an error, such as [ErrGone], if the store is no longer where it was
	// opened. It is cheap: a server calls it each second.
	Check() error

	// Close gives up the store. Closing it again does nothing.
	Close() error
}

// Backuper is a Store that can be copied while it is in use.
type Backuper interface {
	// Backup returns a copy of the store as of the last commit, and its size in bytes. It
	// may be called at any time before Close, even during a commit. The caller closes the
	// copy.
	Backup() (copied io.ReadCloser, size int64, err error)
}

// Batch is what one [Store.Commit] makes durable.
type Batch struct {
	// Changes are in the order in which they were made.
	Changes []pool.Change

	// Steps says where Changes may be divided if they are too many for one transaction.
	// Each call of the pools is a step. Steps has the index in Changes at which each step
	// ends, in ascending order. The last end may be left out. A step that is too large itself
	// may be divided before each change that does not continue another: see
	// [pool.Kind.Continues].
	Steps []int

	Clock      time.Duration // the lease clock
	Generation uint64        // the last one granted, Changes included
}
