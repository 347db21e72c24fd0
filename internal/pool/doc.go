// Package pool decides who gets the next lease. A [Set] holds the pools of one server and
// guarantees, for any calls in any order:
//
//   - A name has at most one holder. A key of a pool has one, too, or several that all read it.
//   - Nobody is granted a name that a person has taken out of its pool: see [Set.Reserve].
//   - No grant or growth makes the units in use exceed the limit of their pool, except by the
//     pool's overcommit. A lease that is larger than the limit is granted only while it has the
//     pool alone. Names that are only reserved take nothing of the limit.
//   - The units of one request are granted together or not at all, also those of several pools.
//   - The first waiter that is there (see [Set.Detach]), and that no key or name keeps out, is
//     next. While it does not fit, those behind it that fit go first, at most so many units in all
//     as its pool has ([Config.Overtake] times); from then on nobody overtakes it. See "The order"
//     below.
//   - A request that joined another gets the result of a run that began after the request came
//     ([Once] allows an earlier run), or a turn of its own. It gets one answer, and the same answer
//     again whenever it repeats.
//   - A request id is granted at most once, even across a restart from a [Snapshot], as long as its
//     end is remembered: see [EndedKept] and [MaxEnded].
//   - Every grant of a name has a generation of its own, and ends exactly once.
//   - A pool with a pace grants no faster than the pace, however many requests come at once. With
//     [AutoPace] it grants as many per hour as without a pace.
//   - A restart keeps the order of the queue, and what overtook each waiter; of requests of several pools
//     behind the tenth place, whole parts of that. However often the
//     server restarts, a lease that nobody renews ends: see [New].
//
// The guarantees hold while operators break leases ([Set.Break]), remove waiters ([Set.Remove]),
// pause pools ([Set.Pause]), reserve names ([Set.Reserve]), and change the configuration
// ([Set.Reconfigure]).
//
// # The order
//
// The waiters of all pools stand in one order, which does not change by itself: first those with
// Overcommit, then by rank, which is the time of arrival less what the priority is worth (see
// [New]). A leader has the best rank of its own and its followers', and who supersedes another has
// its place, with the better priority of the two.
//
// Nobody starves: only those that came within the worth of their priority after a waiter can have a
// better rank, and they are finitely many; those of a worse rank take no more than the bound. Then
// its units come free for it, at the latest when nothing else is in use. Nor does a key starve
// anybody: whom the holders of a key keep out waits for these and for those ahead of it, and no
// longer, since a reader waits behind each writer that is there and ahead of it. A name is like a
// key that one holds alone: who wants it waits for its holder, and for those ahead that get it. A
// reservation keeps out those that want its name, and those that want more names than are left.
// Neither holds anybody else up, so the pool goes on without the name, however long. Without aging,
// those of a higher priority may starve the others, and so may requests with Overcommit, which go
// before all: that is what they are for.
//
// A request of several pools ([Ask.Also]) has a place in the queue of each, and holds nothing while
// it waits. It is granted when all of it fits, the pace of each pool allows it, and nobody is ahead
// of it in one of its pools whom it must not overtake. While another of its pools has no room for it,
// it is no candidate. It has to wait until all come free at once, so four times as much may overtake
// it, as parts of the bounds of its pools, added up. From then on its pools are kept for it one after
// the other: first the one where least went ahead of it, the next only while those before it have
// room; nobody overtakes it in a pool that is kept. A pool that is paused, or that has
// become smaller than what is asked of it, keeps the request out of all its queues: one pool's
// trouble stops no other pool. Its key belongs to its first pool, and so does what its holder
// reports.
//
// So there is no deadlock: who waits holds nothing, and the order is the same in all pools, so the
// first of those at their bounds has nobody before it that must not be overtaken. Its first pool comes
// free for it, and stays free; then the next does. And there is no starvation: only so much goes ahead
// of each waiter, by the bounds above. Nor is anything wasted: a pool never has room for a waiter that
// none of these rules keeps back.
//
// What overtakes a waiter is counted for it alone, when it is granted, and never taken back. It is
// counted for a waiter that is there and cannot go, and that nothing keeps out. In particular:
//
//   - Who fits is never overtaken. If a request that fits must wait, since those ahead of it have
//     been overtaken by too much, those behind it wait, too.
//   - A pace and a pause let nobody pass. Nor does a waiter that fits and is away: see [HoldBack].
//     But a request of several pools holds nobody up, whatever it waits for, until its bound is
//     reached: those that go ahead of it are counted.
//   - Nobody overtakes a request with Overcommit, and what it takes is not counted.
//   - Of the waiters for one key, a writer is not overtaken by those behind it, nor a reader by the
//     writers behind it: whoever gets the key keeps them out.
//   - What overtook a leader counts for its followers when the leader leaves the queue, and what
//     overtook a superseded request counts for the one that has its place.
//   - A lease grows only if the waiter that is next would still fit: growth overtakes nobody.
//   - A request without a name takes first what no waiter wants by name, ahead of it or behind.
//   - Only the first [Lookahead] of those that could be next are looked at.
//
// A Set is only a state machine: no clock, no goroutine, no I/O, no randomness. The same calls with
// the same times give the same answers. The argument now is the time on the lease clock: how long
// the server has run, summed over all its starts. This clock stands still while the server is down,
// so no lease is lost because the server could not take its renewal. A now before the latest one
// counts as the latest one.
//
// A Set is not safe for concurrent use: its caller serialises the calls. It also does nothing by
// itself: the caller asks [Set.Next] when something is due, and calls [Set.Advance] then. Every
// other method that takes now, except [Set.Stalled], advances the Set first, so even a late caller
// sees no lease that is over.
//
// [Set.Drain] returns what the calls changed, as a list of [Change]. The caller makes the changes
// durable, tells those concerned, and logs them. If it answers a request only when all changes
// except [Queued] and [Joined] are durable, it may restart from the last durable state: no client
// was told of the grants that are lost then, and a request that is repeated gets another grant.
package pool
