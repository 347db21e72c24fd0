// Package pool decides who gets the next lease. A [Set] holds the pools of one
// server and guarantees, whatever it is asked and in whatever order:
//
//   - A name has at most one holder, and no grant makes more leases of a pool
//     held than the pool has names.
//   - The names of one request are granted together or not at all.
//   - Grants are first come, first served among the waiters that are there: a
//     request for many names is not overtaken by requests for few.
//   - A request id is granted at most once, also over a restart from a
//     [Snapshot], for as long as its end is remembered: see [EndedKept] and
//     [MaxEnded].
//   - Every grant of a name has a generation of its own, and ends exactly once.
//   - A pool with a pace grants no faster than that, however many come at once,
//     and as many per hour as without if the pace is [AutoPace].
//
// These hold while operators break leases ([Set.Break]) and change what there is
// ([Set.Reconfigure]).
//
// It is a state machine and nothing else: no clock, no goroutine, no I/O, no
// randomness. The same calls with the same times give the same answers. Time
// comes in as an argument, now, which is the lease clock: how long the server
// has run, over all its lives. It stands still while the server is down, so a
// lease is not lost because nobody could renew it. A now that is before an
// earlier one counts as that earlier one.
//
// A Set is not safe for concurrent use; its caller serialises. It does not act
// by itself either: the caller asks [Set.Next] when something is due, and calls
// [Set.Advance] then. Every other method that takes now does the same first, so
// a caller that is late sees nothing that is over.
//
// Whatever a call changed, [Set.Take] hands out as a list of [Change]: what
// must be made durable, who must be told, what goes to the log. A caller that
// answers only when the changes are durable may start again from what was made
// durable last: the grants that are lost then were told nobody, and their
// request ids, if they come again, get others.
package pool
