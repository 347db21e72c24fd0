// Package holder is the life of a lease behind a handle: acquire, keep or hand over, renew, resize, report,
// release. Handles (lockfile) and lease proxies (proxyclient) do not know each other: holder brings them
// together.
//
// It guarantees:
//
//   - No granted lease is lost: the lease stands in a handle or in the journal, or ends by
//     itself. Wherever a process is killed, recover (holder/recovery) or the next acquire
//     at the same proxy finds the lease, or the proxy takes it back. See docs/architecture.md
//     for each case.
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
// from the adapter for proxies of version 1 (holder/v1). release.go gives back what a
// handle has, names.go names without a handle, and delay.go what the proxy is to release later.
//
// # The packages around it
//
// Below holder are its means: the way to a proxy (holder/dial), the process in the background
// (holder/keeper), version-1 proxies (holder/v1), the time of a clean-up (holder/cleanup), and the marks
// of wrong requests (holder/usage). Above it are a lease of several commands (holder/shared), of which
// holder knows only [Part], and what the killed left (holder/recovery).
//
// # Words
//
// To dial is to get the client of a proxy. A request is what an acquire wants; to await is to block until
// it is granted. To ask is to put a question to a proxy that changes nothing there. To settle is to deal with
// what a dead process left. To report is to tell the proxy what the account said; a [Reporter] tells the user
// what happens.
package holder
