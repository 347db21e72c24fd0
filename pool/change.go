package pool

import "time"

// Kind is what a [Change] says.
type Kind int

// The kinds of changes. All but Dropped change what a [Snapshot] holds.
const (
	Granted    Kind = iota // Leases are held from now on
	Renewed                // a renewal made Lease firm or gave it another TTL; a plain renewal changes nothing durable
	Delayed                // Lease has a pending release, or another time for it
	Done                   // Lease has ended, by Reason
	Remembered             // Ended is remembered from now on
	Forgotten              // Ended is forgotten
	Dropped                // the waiter ID is off the queue without a lease
	Broken                 // Lease was taken away by an operator; it is held until it is Done
)

// Change is one thing that a call changed. The comments of the fields name the
// kinds that use them; in other changes they are zero.
type Change struct {
	Kind   Kind
	ID     string        // the request; with Granted and Dropped, also that of a request that cannot be repeated
	Leases []Lease       // Granted
	Lease  Lease         // Renewed, Delayed, Broken, Done: as it is afterwards
	Reason Reason        // Done
	Ended  Ended         // Remembered, Forgotten
	Err    error         // Dropped: what to tell connections that wait; nil if there can be none
	Took   time.Duration // Granted, Dropped: how long it waited; Done: how long the lease was held
}
