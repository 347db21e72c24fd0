package replicated

import (
	"context"
	"errors"
	"time"
)

// ErrRefused is the error of a call that the database did not carry out, and would refuse
// again. After any other error the database may have carried the call out, or may still do so.
var ErrRefused = errors.New("refused")

// Database is where servers share a store. It has two entries that all servers read, the
// leader's and meta, and numbered records.
//
// Look, Take, Keep, Resign, Commit and Leave are one transaction each, except that Take may make the
// tables of a new store before. Standbys may read after its write, in another transaction. What a
// method wrote is durable when it returns without an error. A transaction that began after the end of
// another sees what that one wrote. A transaction may be carried out late, even after its call has
// failed. All methods return soon
// after ctx ends, and are safe for concurrent use.
type Database interface {
	// Look returns both entries as they are at one moment. It returns [store.ErrOpen] or
	// [store.ErrDamaged] if no server may use what is there.
	Look(ctx context.Context) (State, error)

	// Take writes the leader's entry if its version is seen; 0: if there is none. It returns
	// meta as of that moment.
	Take(ctx context.Context, leader []byte, seen int64) (meta Entry, taken bool, err error)

	// Keep writes the leader's entry again if its value is leader, so that its version grows.
	// It returns the version of meta as of that moment.
	Keep(ctx context.Context, leader []byte) (meta int64, kept bool, err error)

	// Resign deletes the leader's entry if its value is leader.
	Resign(ctx context.Context, leader []byte) error

	// Commit writes meta, and does all writes. It does nothing unless the conditions of c
	// hold. It returns the new version of meta.
	Commit(ctx context.Context, c *Commit) (version int64, done bool, err error)

	// Read returns the records with numbers of at least from, in ascending order, up to
	// about a thousand. more says whether there are further ones.
	Read(ctx context.Context, from uint64) (page []Record, more bool, err error)

	// Standbys writes the entry of a server that stands by, unless own is nil, and returns
	// all such entries.
	Standbys(ctx context.Context, own *Standby) ([]Standby, error)

	// Leave deletes the entry of a server that stood by, if it has this version; 0: whatever
	// its version.
	Leave(ctx context.Context, name string, version int64) error

	// Wait waits for d, or for a shorter time if somebody resigns. It returns the cause if
	// ctx ends first. Only servers that stand by call it.
	Wait(ctx context.Context, d time.Duration) error

	// Maintain looks after the database while this server leads. It returns soon after ctx
	// ends. Nothing depends on it.
	Maintain(ctx context.Context)

	// Advice returns what an operator should know of an error of the other methods; "" if it
	// is nothing that the error does not say.
	Advice(err error) string
}

// Entry is a value with a version.
type Entry struct {
	Value   []byte // nil: there is no such entry
	Version int64  // grows with each write, also of the same value; 0: there is no such entry
}

// State has the entries that all servers read.
type State struct {
	Leader Entry // who leads
	Meta   Entry // of the last commit
}

// Record is some of the content of the store.
type Record struct {
	Number uint64
	Value  []byte
}

// Commit is what one transaction changes. It has the condition that the leader's entry has the
// value Leader and that meta has the version Version.
type Commit struct {
	Leader  []byte
	Version int64 // 0: there is no meta
	Meta    []byte
	Writes  []Record // a record without a value is deleted
}

// Standby is the entry of a server that stands by.
type Standby struct {
	Name    string // no other server has it
	Value   []byte // for people
	Version int64  // as [Entry.Version]; [Database.Standbys] sets it
}
