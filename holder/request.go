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
	Overcommit  bool          // take the lease although the pool is full or paused

	// Outlives says that the lease is not for the life of this process: if
	// that is killed once the handle has the names, the handle's user has them.
	Outlives bool
}
