package holder

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// Request says what to acquire.
type Request struct {
	Type  string
	Count int    // number of leases, all or none; in a counted pool, of units; zero: not given
	Items *int   // instead of Count, in a counted pool with a cost; nil: not given
	Key   string // no two leases of a pool have the same key, unless both read it; "" is none
	Name  string // of a listed pool: this one and no other; "" is any
	// KeyMode is [leaseapi.KeyRead] or [leaseapi.KeyWrite]; "": the latter, or no key.
	KeyMode string
	// Also are other types to take leases of in the same grant, all or none; the rest of the request
	// is about Type. Not with Shared, Coalesce or Overcommit.
	Also  []leaseapi.Also
	Proxy string // "": that of the options

	// Handle is the handle to write the names into. Private says that nobody else has been told
	// of this handle.
	Handle  lockfile.Handle
	Private bool
	// Replaces tells, by the record of Handle, whether the request may replace the leases or
	// the waiting request that Handle has. They are given back under the lock under which the
	// new request is written, so no other process sees a handle that neither holds nor waits.
	// If Replaces is nil or returns false, a handle in use is [ErrHeld].
	Replaces func(lockfile.Record) bool
	// SharedList is the list of names that outlives the step, for the scope of
	// a test; "" is none.
	SharedList lockfile.List

	Jitter      time.Duration // upper bound of a random delay before asking
	WaitTimeout time.Duration // how long to queue, jitter not counted; zero asks once
	TTL         time.Duration // zero: the pool's own
	// Coalesce is how the request merges with others of the same Key, such as
	// [leaseapi.CoalesceJoin]; "": it does not. Variant says what the run of the request does.
	Coalesce, Variant string
	Overcommit        bool // take the lease although the pool is full or paused
	Priority          int  // how many steps to go ahead in the queue

	// Around is the path of the handle of the exec that this process runs under; "" is none.
	// The request may have to wait for the lease of that exec.
	Around string

	// Outlives says that the lease outlives this process: after a kill, recover keeps the names
	// in the handle, which are then its user's.
	Outlives bool

	Owner string // "": that of the options

	tried bool // the same request was sent before without a WaitTimeout: see [proxyclient.Request]
}
