package pool

import "time"

// Kind says what changed; see [Change].
type Kind int

// The kinds of changes. All change the content of a [Snapshot], except those of requests
// without an id. Queued and Joined need not be durable at once: the request is not answered
// yet, and can lose only its place.
const (
	Granted       Kind = iota // Leases are held from now on
	Renewed                   // a renewal made Lease firm, gave it another TTL, or was its first since it was Extended; other renewals change nothing durable
	Extended                  // Lease has its full TTL again, after a restart or a stall
	Delayed                   // Lease has a pending release, or another time for it
	Done                      // Lease has ended, by Reason
	Remembered                // Ended is remembered from now on
	Forgotten                 // Ended is forgotten
	Queued                    // Waiter is on the queue from now on
	Joined                    // Waiter follows the request Waiter.Follows from now on
	Missed                    // the client of Waiter must come back, after a restart or a stall
	Returned                  // the client of Waiter has come back
	Overtaken                 // more units went ahead of Waiter, which did not fit
	Moved                     // an operator gave Waiter another priority
	Dropped                   // the waiter ID is off the queue without a lease
	Resized                   // a resize of Lease was decided; it had Before units, as many as now if it was refused
	Broken                    // Lease was taken away by an operator, perhaps again; it is held until it is Done
	LockBegun                 // Locked is not granted for a while, although nobody holds it
	LockOver                  // Locked may be granted again
	Paced                     // Pacing counts from now on
	Named                     // Naming counts from now on
	Paused                    // an operator has stopped a pool, perhaps again: Pause
	Resumed                   // Pause is over
	ReportCounted             // Reported counts
	Adapted                   // Reports count from now on
	LostOther                 // a request has lost a lease for the first time: Leases are those that it still holds
)

// Change is one thing that a call changed. The comments of the fields name the kinds that use
// them; in other changes they are zero. Rare parts are pointers, which keeps a Change small.
type Change struct {
	Kind     Kind
	Act      Act       // the operator's act that caused it; zero: none did
	ID       string    // Granted, Dropped: the request, even one that cannot be repeated
	Leases   []Lease   // Granted, LostOther; ReportCounted of leases that are held: as they are afterwards
	Lease    Lease     // Renewed, Extended, Delayed, Resized, Broken, Done: as it is afterwards
	Before   int       // Resized: units
	Reason   Reason    // Done
	Ended    Ended     // Remembered, Forgotten; ReportCounted of a lease that has ended: as it is afterwards
	Waiter   *Waiter   // Queued, Joined, Missed, Returned, Overtaken, Moved: as it is afterwards
	Locked   *Locked   // LockBegun, LockOver
	Pacing   *Pacing   // Paced
	Naming   *Naming   // Named
	Pause    *Pause    // Paused, Resumed
	Reported *Reported // ReportCounted
	Reports  *Reports  // Adapted
	Moved    bool      // Adapted: the limit has just moved, by Reports.Moved
	// WasQueued: Granted, Dropped: the request has waited and has an id, so a store has it
	// among its waiters.
	WasQueued bool
	Overtook  int           // Granted: how many waiters it went ahead of that did not fit
	Took      time.Duration // Granted, Dropped: how long it waited; Done: how long the lease was held

	Request *Request // Dropped
	Err     error    // Dropped: what to tell connections that wait; nil: there are none
}
