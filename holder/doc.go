// Package holder manages the life of a lease behind a handle. It acquires leases, keeps
// them, gives them back, and settles the leases of killed processes. Handles (lockfile) and
// lease proxies (proxyclient) do not know each other: holder brings them together.
//
// It guarantees:
//
//   - No granted lease is lost: the lease stands in a handle or in the journal, or ends by
//     itself. Wherever a process is killed, [Holder.Recover] or the next acquire at the
//     same proxy finds the lease, or the proxy takes it back. See docs/architecture.md for
//     each case.
//   - No handle's lock is held while a request queues or a process sleeps. A release never
//     waits behind a queue. If two processes use one handle, the later one wins.
//   - A run gives back the leases that it took, and no others: it does not touch a handle
//     that has another request.
//   - Messages to the user never block: see [Reporter].
//
// # The phases of a lease
//
// [Holder.Acquire] leads a [Lease] through these phases. A failure undoes the steps that
// led to the current phase. A kill leaves this state:
//
//	intended   the journal has the request; nothing was sent
//	enqueued   the handle has the request too, and the proxy may have it: recover
//	           withdraws it
//	granted    the proxy has granted the lease provisionally: recover withdraws it, or it
//	           ends in 30 s
//	recorded   the handle has the names: recover releases them if the lease was for the
//	           life of the process; else they are left to the handle's user
//
// [Lease.Keep] and [Lease.Release] follow, if the lease is for the life of the process, or
// [Lease.HandOver] if it outlives the process.
//
// A release has three steps under the handle's lock: the record says that it has begun; the proxy
// is told; the handle is removed. A kill in between leaves a handle whose next release sends it
// again, which changes nothing if it had arrived: each lease has a generation, from our server or
// from the adapter for proxies of version 1 (holder/v1). releasing is the only way to give back
// what a handle has, and sendRelease the only place that tells a proxy.
//
// A shared lease, which several commands of a machine hold together, is a plain lease behind
// a handle of its own. Its record ([lockfile.Shared]) says which commands use the lease and
// what each of them is about to do. [Lease.Keep] and [Lease.Release] of a shared lease act
// for one command's use.
package holder
