package holder

import (
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// Request says what to acquire.
type Request struct {
	Type  string
	Count int    // leases, all of them or none; units of a counted pool; zero: not said
	Items *int   // instead of Count, in a counted pool with a cost; nil: not said
	Key   string // no two leases of a pool have the same; "" is none
	Proxy string // "" is that of the options

	// Handle is where the names are to be written. Private says that nobody
	// else has been told of it.
	Handle  lockfile.Handle
	Private bool
	// Replaces tells by its record whether what the handle holds is given back
	// first, under the same lock: no third process ever sees a handle that
	// neither holds nor waits. Nil replaces nothing.
	Replaces func(lockfile.Record) bool
	// SharedList is the list of names that outlives the step, for the scope of
	// a test; "" is none.
	SharedList lockfile.List

	Jitter      time.Duration // upper bound of a random delay before asking
	WaitTimeout time.Duration // how long to queue, jitter not counted; zero asks once
	TTL         time.Duration // zero: the pool's own
	// Coalesce is how the request merges with others of its Key, as of
	// [leaseapi.CoalesceJoin]; "" is not at all. Variant says what its run does.
	Coalesce, Variant string
	Overcommit        bool // take the lease although the pool is full or paused

	// Shared says that the lease is one that commands of this machine hold
	// together, and has a handle of its own; nil: it is this process's alone.
	Shared *Shared

	// Around is the handle of the exec that this process runs under, whose lease the
	// request may wait for; "" is none.
	Around string

	// Outlives says that the lease outlives this process: after a kill the names in the
	// handle are its user's, and recover keeps them.
	Outlives bool

	owner string // "" is that of the options
	tried bool   // it was made without a WaitTimeout: see [proxyclient.Request]
}

// Shared says how to share a lease. The first user of a round decides on its uses and age.
type Shared struct {
	Name string // any text but the empty one
	// MaxUses is after how many uses a round is expired; zero: never. As long as no
	// other lease is free, Percent of a hundred more may join.
	MaxUses, Percent int
	// MaxAge is after how long a round is expired at the latest; zero: never.
	MaxAge time.Duration
	// Linger is how long the last user leaves the lease for others to join; zero:
	// it gives the lease back.
	Linger time.Duration
	// AnyTTL says that the TTL of the request is a default: a round of another one
	// will do.
	AnyTTL bool
	// Within are the uses that this process runs under, as [Lease.Uses] of a
	// leasectl above it.
	Within string
}
