package pool

import "time"

// Kind is what a [Change] says.
type Kind int

// The kinds of changes. All change what a [Snapshot] holds, except those of requests
// without an id. A Queued or Joined need not be durable at once: its request is not
// answered yet, and can lose only its place.
const (
	Granted    Kind = iota // Leases are held from now on
	Renewed                // a renewal made Lease firm, gave it another TTL, or was its first since it was Extended; any other changes nothing durable
	Extended               // Lease has its full TTL again, after a restart or a stall
	Delayed                // Lease has a pending release, or another time for it
	Done                   // Lease has ended, by Reason
	Remembered             // Ended is remembered from now on
	Forgotten              // Ended is forgotten
	Queued                 // Waiter is on the queue from now on
	Joined                 // Waiter follows another request from now on, as it Follows
	Missed                 // Waiter has to come back, after a restart or a stall
	Returned               // Waiter has come back
	Dropped                // the waiter ID is off the queue without a lease
	Resized                // a resize of Lease was decided; it had Before units, as many as now if it was refused
	Broken                 // Lease was taken away by an operator, perhaps again; it is held until it is Done
	LockBegun              // Locked is not granted for a while, although nobody holds it
	LockOver               // Locked may be granted again
	Paced                  // Pacing counts from now on
	Named                  // Naming counts from now on
	Paused                 // an operator has stopped a pool, perhaps again: Pause
	Resumed                // Pause is over
	Told                   // Reported counts
	Adapted                // Reports count from now on
)

// Change is one thing that a call changed. The comments of the fields name the
// kinds that use them; in other changes they are zero. What is rare is a pointer,
// which keeps the others small.
type Change struct {
	Kind     Kind
	Act      Act       // the operator's act that caused it; zero: none did
	ID       string    // the request; with Granted and Dropped, also that of a request that cannot be repeated
	Leases   []Lease   // Granted; Told of leases that are held: as they are afterwards
	Lease    Lease     // Renewed, Extended, Delayed, Resized, Broken, Done: as it is afterwards
	Before   int       // Resized: units
	Reason   Reason    // Done
	Ended    Ended     // Remembered, Forgotten; Told of a lease that has ended: as it is afterwards
	Waiter   *Waiter   // Queued, Joined, Missed, Returned: as it is afterwards
	Locked   *Locked   // LockBegun, LockOver
	Pacing   *Pacing   // Paced
	Naming   *Naming   // Named
	Pause    *Pause    // Paused, Resumed
	Reported *Reported // Told
	Reports  *Reports  // Adapted
	Moved    bool      // Adapted: Reports.Moved has just happened
	// WasQueued: with Granted and Dropped, the request has been Queued and has an
	// id, so a store has it among its waiters.
	WasQueued bool
	Took      time.Duration // Granted, Dropped: how long it waited; Done: how long the lease was held

	Request *Request // Dropped
	Err     error    // Dropped: what to tell connections that wait; nil if there can be none
}
