// Package shared has leases that commands of this machine hold together, and the services that come with
// them.
//
// A shared lease has a record ([lockfile.Shared]) with its rounds, each the time of one lease, and their
// uses, each one command's part. The lease of a round is a plain one, which [holder.Holder.Acquire] takes into
// a handle of the round. [Acquire] returns it as a [holder.Lease] that is kept and released for the caller's
// use: see [holder.Part].
//
// It guarantees:
//
//   - A round has one lease, which its users renew by turns, and which the last of them gives back, or leaves to
//     linger.
//   - Every step that others must not take, too, stands in the record before it is taken. If its process is
//     killed, the next command that looks settles the round, or recover does: see docs/architecture.md.
//   - A service lives no longer than its round. If its keeper ([KeepService]) is killed, its process group dies
//     before anybody gives the lease back.
//
// The users watch the record once a second. The user that holds the renewal lock of the round renews, and
// records the new deadline for all, or that the lease is lost. When this user ends, another takes the lock; if
// half of the time to the deadline passes without a renewal, the others renew without the lock. Times in the
// record count from the boot of the machine.
//
// A newcomer decides under the record's lock what to do: it joins a round that is held, begins a round of its
// own, or waits until another user has done its step. It acts without the lock. A newcomer that waits holds
// nothing and stands in no record: it decides anew each time it looks.
package shared
