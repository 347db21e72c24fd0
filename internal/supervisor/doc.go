// Package supervisor runs a command while a lease is held for it: attempts, the signals that
// arrive meanwhile, and a lease that is lost.
//
// It guarantees:
//
//   - The supervisor acts before it prints, and never waits for a message to be read: a full
//     stderr that nobody reads delays neither the stop of a command nor a signal.
//   - From the command's start on, every signal is forwarded to its group, each time it comes.
//     Earlier signals are not replayed; an earlier signal that asks leasectl to end keeps the
//     command from being started.
//   - When the lease is lost, the command's group is dead before another holder can have the
//     lease, as far as the granted TTL allows: the grace period is cut to that.
//   - A run gives back the leases that it took, and no others: another process may have put its
//     own into the handle.
package supervisor
