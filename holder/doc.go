// Package holder is the life of a lease behind a handle: acquire into it, keep
// it, give it back, settle what the killed left, and the keeper. It is the only
// place that knows both handles (lockfile) and lease proxies (proxyclient).
//
// It guarantees:
//
//   - A lease that was granted stands in a handle or in the journal, or ends by
//     itself: whatever line a process is killed on, [Holder.Recover] or the next
//     acquire at the same proxy finds it, or the proxy takes it back. See
//     docs/architecture.md for each case.
//   - No handle's lock is held while queueing or sleeping. A release never waits
//     behind a queue; of two processes at one handle the later one wins.
//   - A run gives back the leases that it took, and no others: a handle that has
//     another request is left alone.
//   - Nothing blocks on telling the user: see [Reporter].
//
// # The phases of a lease
//
// [Holder.Acquire] leads a [Lease] through them, and a failure rolls back what
// its phase has done. A kill leaves the state that the phase names:
//
//	intended   the journal has the request: nothing was sent
//	enqueued   the handle has it too, and the proxy may: recover withdraws it
//	granted    the proxy granted it, provisionally: likewise, or it ends in 30 s
//	recorded   the handle has the names: they are its user's, or, if they were
//	           for the life of the process, recover releases them
//
// From there it is [Lease.Keep] and [Lease.Release], for a lease that lives as
// long as the process, or [Lease.HandOver], for one that outlives it.
//
// Giving back is three steps under the handle's lock: the record says that the
// leases are owed; the proxy is told; the handle goes. A kill in between leaves
// a handle that says what it owes, and the next release of it settles that.
// giveBack has the lock and the journal entry, releaseHandle the record,
// releaseOwed takes what is owed one by one, and send tells the proxy and notes
// what came of it.
//
// A lease that several commands of a machine hold together is a plain one behind a
// handle of its own. Its record ([lockfile.Shared]) says who uses it and what each
// of them is about to do; [Lease.Keep] and [Lease.Release] are then about one
// command's part in it.
//
// # The files, from the public down
//
//   - acquire.go: which kind of lease;
//   - recover.go, recoverhandles.go, recoveractions.go: what the killed left;
//   - shared.go, sharedbegin.go (a newcomer joins or begins a round), sharednested.go (or
//     is within another's use), sharedchoice.go (how it decides), sharedkeep.go,
//     sharedsettle.go (what dead users left), shareduse.go (a user renews and leaves),
//     sharedstatus.go, sharedlease.go (what can be asked of a round): one lease of many
//     commands;
//   - handover.go, phases.go (from the journal to the handle, and back), await.go, ask.go
//     (the wait at the proxy), keep.go (renewals, and whether it is lost), lease.go,
//     request.go: the life of a lease; report.go: what the account said to its command;
//   - resize.go, renew.go: what commands do to a handle's lease;
//   - keeper.go: the background process;
//   - release.go, delay.go (a release that is put off), releaseall.go: giving back;
//     settle.go: for a dead process; giveback.go: its handle; releaseowed.go: its record
//     and its proxy; named.go, owed.go: what bare names mean, and what is owed;
//   - holder.go: the parts of a Holder: keepers.go, journal.go, history.go, list.go (its
//     files), dial.go, origin.go (is it the proxy that granted?), pipe.go, address.go (its
//     proxy), statedir.go, machine_*.go;
//   - releasetime.go (how long giving back may take), ending.go (how a command ended),
//     errors.go, queue.go (where a request stands, in words), reporter.go (who tells the
//     user), failpoint_*.go.
package holder
