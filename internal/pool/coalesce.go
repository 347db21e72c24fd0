package pool

import (
	"fmt"
	"slices"
	"sort"

	"github.com/leasectl/leasectl/leaseapi"
)

// Coalesce says whether a request with an [Ask.Key] merges with others of that key, instead of
// waiting for a turn of its own. Requests merge only if they have the same caller (see
// [BindOwner]) and the same Overcommit.
type Coalesce uint8

// The modes; zero: the request merges with no other.
const (
	// Join joins the last waiter of its key, if that waiter is Join or Once and has the same
	// Variant. So the request ends with the result of a run that began after it came.
	Join Coalesce = iota + 1
	// Once is like Join; but if nobody waits for the key, it joins the run under way.
	Once
	// Latest replaces the last waiter of its key, if that waiter is Latest too, with any Variant,
	// and takes its place unless it wants more. The replaced request ends as [Superseded].
	Latest
)

var coalesceWords = [...]string{"", leaseapi.CoalesceJoin, leaseapi.CoalesceOnce, leaseapi.CoalesceLatest}

// String returns the word for c, which is empty for zero.
func (c Coalesce) String() string { return coalesceWords[c] }

// ParseCoalesce is the reverse of [Coalesce.String].
func ParseCoalesce(word string) (Coalesce, error) {
	for c, w := range coalesceWords {
		if w == word {
			return Coalesce(c), nil
		}
	}
	return 0, fmt.Errorf("%q is no way to coalesce that this server knows", word)
}

// MarshalText implements [encoding.TextMarshaler].
func (c Coalesce) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *Coalesce) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCoalesce(string(text))
	return err
}

// A follower is a request that waits for the result of another, its leader, which waits or has
// leases. When the leader's turn comes, the leases go to the first of the leader and its
// followers that is not away.

// join makes r, a new request, a follower of lead.
func (g *ledger) join(lead, r *request) {
	g.register(r)
	g.follow(lead, r)
	g.activate(r)
	g.noteWaiter(Joined, r)
}

// follow puts r behind the other followers of lead, which arrived earlier. If r has a better rank
// than they and lead, lead moves to it.
func (g *ledger) follow(lead, r *request) {
	r.leader = lead
	lead.followers = append(lead.followers, r)
	r.pool.following++
	g.countWanted(r)
	if g.ownRank(r).before(lead.rank) {
		g.rerank(lead)
	}
}

// unfollow is the counterpart of follow.
func (g *ledger) unfollow(r *request) {
	g.deactivate(r)
	lead := r.leader
	if lead.followers[0] == r { // moves nothing when all leave in their order
		lead.followers = lead.followers[1:]
	} else {
		i := slices.Index(lead.followers, r)
		lead.followers = slices.Delete(lead.followers, i, i+1)
	}
	r.leader = nil
	r.pool.following--
}

// supersede drops last and gives its place to r, a new request. If r wants more than last, it goes to its own
// place: or a small request would keep one for a large one.
func (g *ledger) supersede(last, r *request) {
	g.dropForGood(last, &CoalescedError{Superseded}, Ended{Result: Superseded})
	if r.units <= last.units {
		g.takePlace(r, last)
	}
}

// takeTurn makes f, a follower of lead, the leader of lead and its other followers.
// Lead has left the queue before, and f is granted its leases afterwards.
func (g *ledger) takeTurn(lead, f *request) {
	g.unfollow(f)
	f.followers = append([]*request{lead}, lead.followers...)
	lead.followers = nil
	lead.pool.following++
	g.adopt(f)
}

// adopt makes r the leader of its followers. Whom they follow is noted when r is granted its leases: until
// then a restart decides anew whom they join, and each of them may be the leader of the others after it.
func (g *ledger) adopt(r *request) {
	for _, f := range r.followers {
		f.leader = r
		g.countWanted(f)
	}
	r.adopted = len(r.followers) > 0
}

// noteFollowers notes whom the followers of r follow, which is granted its leases, unless the store knows.
func (g *ledger) noteFollowers(r *request) {
	if !r.adopted {
		return
	}
	r.adopted = false
	for _, f := range r.followers {
		g.noteWaiter(Joined, f)
	}
}

// drop ends the wait of r without a lease. Its connections are told err.
func (g *ledger) drop(r *request, err error) {
	g.withdraw(r, err)
	g.promote(r)
}

// dropForGood is drop of a request whose id is remembered with e, before anything else changes: see
// [Kind.Continues].
func (g *ledger) dropForGood(r *request, err error, e Ended) {
	g.withdraw(r, err)
	e.ID = r.ID
	g.remember(e)
	g.promote(r)
}

// withdraw is drop without a successor of r among its followers.
func (g *ledger) withdraw(r *request, err error) {
	if lead := r.leader; lead != nil {
		g.unfollow(r)
		if g.ownRank(r) == lead.rank {
			g.rerank(lead)
		}
	} else {
		g.takeOffQueue(r)
		g.passOn(r)
	}
	g.deregister(r)
	g.touchAll(r) // r may have been in the way
	c := g.note(Dropped)
	c.ID, c.Request, c.Err, c.WasQueued, c.Took = r.ID, &r.Request, err, !r.Anonymous, g.now-r.arrived
}

// conclude decides about the followers of r, whose last lease has ended. If the run of r passes
// on a result, their wait ends with it. Otherwise the oldest follower waits at the place of its
// own arrival, and the others follow it.
func (g *ledger) conclude(r *request) {
	if r.result == 0 || r.lost {
		g.promote(r)
		return
	}
	for _, f := range slices.Clone(r.followers) {
		g.dropForGood(f, &CoalescedError{r.result}, Ended{Result: r.result})
	}
}

// promote puts the oldest follower of r, which is gone, into the queue, as the leader of the
// others. Followers that have lost their places, too, are dropped before: none of them comes to lead
// the others for a moment.
func (g *ledger) promote(r *request) {
	for _, f := range slices.Clone(r.followers) {
		if g.timers.has(&f.timer) && max(f.activeUntil, f.keptUntil) <= g.now {
			g.drop(f, nil)
		}
	}
	if len(r.followers) == 0 {
		return
	}
	p := r.pool
	first := r.followers[0]
	first.leader, first.followers, r.followers = nil, r.followers[1:], nil
	p.following--
	first.activeCount = 0
	for _, f := range append([]*request{first}, first.followers...) {
		if f.active {
			first.activeCount++
		}
	}
	g.addToQueue(first)
	if first.activeCount > 0 {
		g.enter(first)
	}
	g.noteWaiter(Queued, first)
	g.countWanted(first)
	g.adopt(first)
	g.dismiss(first)
}

// dismiss drops those of r, which is in the queue, and its followers that the pool will never
// serve: a follower may want more units than its leader, and be next when the leader is away.
func (g *ledger) dismiss(r *request) {
	if r.several() {
		for seat := range r.allSeats {
			if seat.pool.retired {
				g.drop(r.whole(), &UnknownTypesError{[]string{seat.Type}})
				return
			}
		}
		if w := r.whole(); w.pool.hasNoCost(w.Request) {
			g.drop(w, ErrNoCost)
		}
		return // about too few units see isShut
	}
	for _, f := range append(slices.Clone(r.followers), r) {
		if err := r.pool.neverServes(f); err != nil {
			g.drop(f, err)
		}
	}
}

// mergesWith reports whether r, a new request, merges with other, which waits or runs.
func (r *request) mergesWith(other *request) bool {
	switch {
	case CallerOf(r.Owner) != CallerOf(other.Owner) || r.Overcommit != other.Overcommit || other.Anonymous:
		return false
	case r.Coalesce == Latest || other.Coalesce == Latest:
		return r.Coalesce == other.Coalesce
	}
	return other.Coalesce != 0 && r.Variant == other.Variant
}

// mergedInto returns the request that r, a new request, joins or supersedes; nil: none. It is
// the last waiter of its key, or, for Once, the run under way.
func (p *pool) mergedInto(r *request) *request {
	k := p.keys[r.Key]
	if k == nil || r.Coalesce == 0 || r.Anonymous {
		return nil
	}
	other := k.last(r.Overcommit)
	if other == nil && r.Coalesce == Once {
		other = k.run()
	}
	if other == nil || !r.mergesWith(other) {
		return nil
	}
	return other
}

// last returns the last waiter of k, among those with Overcommit or among all; nil if there is none.
func (k *key) last(overcommit bool) *request {
	n := len(k.queue)
	if overcommit {
		n = sort.Search(n, func(i int) bool { return !k.queue[i].Overcommit })
	}
	if n == 0 {
		return nil
	}
	return k.queue[n-1]
}

// run returns the request that holds k, if its result may be passed on; else nil.
func (k *key) run() *request {
	if len(k.leases) == 0 || k.leases[0].request == nil || k.leases[0].request.lost {
		return nil
	}
	run := k.leases[0].request
	for _, l := range run.leases {
		if l.Broken != "" || l.ReleaseAt > 0 {
			return nil
		}
	}
	return run
}

// Result is how a request ended that got no lease because it merged with another. Zero: it
// ended in another way.
type Result int32

// Superseded is the result of a request that a newer one replaced; see [Latest].
const Superseded Result = -1

// Exited returns the result of a run whose command ended by itself, with code.
func Exited(code int) Result { return Result(code) + 1 }

// ExitCode returns the code given to [Exited]; false if r is not such a result.
func (r Result) ExitCode() (code int, ok bool) { return int(r) - 1, r > 0 }

// String returns r in words.
func (r Result) String() string {
	if code, ok := r.ExitCode(); ok {
		return fmt.Sprintf("the run that it joined ended with exit code %d", code)
	}
	return "a newer request took its place"
}

// CoalescedError ends a request that merged with another; see [Coalesce]. It matches
// [ErrEnded].
type CoalescedError struct{ Result Result }

func (e *CoalescedError) Error() string { return e.Result.String() }

// Is makes the error an [ErrEnded].
func (e *CoalescedError) Is(target error) bool { return target == ErrEnded }
