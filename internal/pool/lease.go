package pool

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Times for every pool. Clients rely on those of package leaseapi.
const (
	// ProvisionalTTL is how long a grant lasts before its first renewal: if its answer was
	// lost, the grant ends by itself.
	ProvisionalTTL = leaseapi.ProvisionalTTL
	// PlaceKept is how long a waiter keeps its place while no connection is attached to it. A
	// client on a bad network notices only after 30 s that its connection is gone, and then
	// has time to come back.
	PlaceKept = leaseapi.PlaceKept
	// HoldBack is how long a waiter that has not come back after a restart or a stall holds
	// back the waiters behind it: clients try again every few seconds, and come back in any
	// order.
	HoldBack = 10 * time.Second
	// EndedKept is how long an ended request id and its last lease are remembered: longer than
	// any copy of the request can be under way, and long enough for a job that outlives its
	// lease to report its outcome.
	EndedKept = leaseapi.EndedKept
	// KnownTolerance is how much later than [Ref.KnownAt] a lease may have been granted: servers
	// that take over from each other have clocks that differ.
	KnownTolerance = 2 * time.Second
	// MaxEnded is how many ended ids are remembered at most; beyond it the oldest are forgotten
	// early. An id of 32 bytes takes 230 bytes of memory, or 300 with an owner of 70 bytes, and
	// as many in a store. Two hours of 10,000 requests a second would take 20 GB of
	// each. A million take 300 MB, no more than a full queue
	// does. They cover two hours at 140 requests a second, or 100 seconds at 10,000, which is
	// still longer than a copy is under way. If a copy does come later, its grant is
	// provisional.
	MaxEnded = 1_000_000
	// MaxEndedBytes is how much memory ended ids take, as [MaxEnded] of usual ones do, or a fifth of the memory limit
	// of the process if that is less; beyond it the oldest are forgotten early. One caller has a quarter of it: its
	// oldest are forgotten first.
	MaxEndedBytes = 320 << 20
	// MaxUnseen is how many ids that were cancelled before they came are remembered of one caller;
	// beyond it that caller's oldest are forgotten early. So a caller that cancels invented ids
	// makes the server forget nobody else's.
	MaxUnseen = 10_000
	// MaxAllUnseen is how many of those are remembered of all callers; beyond it the oldest of the caller
	// that has most of them are forgotten early. So many callers that cancel invented ids cost 20 MB.
	MaxAllUnseen = 20_000
)

// Lease is one name that is granted, with its units. Times are on the lease clock.
type Lease struct {
	Name       string
	Type       string // of the pool that granted it
	Generation uint64 // unique to this grant
	Owner      string

	RequestID string // empty if the request cannot be repeated
	Units     int    // how many units of the pool it holds; more than 1 only in a counted pool, see [Set.Resize]
	Resizes   int    // how many resizes of it were decided, refused ones included

	Ask // of the request
	// AskedType is the first type that its request asked for, if Type is another: see [Ask.Also]. So
	// Key, Count and the like are not about this lease.
	AskedType string

	Outcome     Outcome // reported for its request so far
	Provisional bool    // not renewed yet
	// Extended: a restart or a stall gave it its full TTL again, and nobody renewed it since.
	// The next restart or stall does not move Expires.
	Extended bool
	// OtherLost: another lease of its request expired or was broken. So the run of the request
	// passes no result on, and its end does not raise the limit.
	OtherLost bool
	// Draining: its name was removed from the pool, and is not granted there again. Only
	// [Set.Pool] and [Set.Leases] set it.
	Draining bool

	TTL       time.Duration // from each renewal on
	Granted   time.Duration
	Expires   time.Duration // when it ends without a renewal, unless ReleaseAt is set
	ReleaseAt time.Duration // when it ends even if it is renewed; zero: no release is pending
	Broken    string        // why an operator took it away; empty: no operator did

	// At is when it was granted, by the wall clock: see [Set.SetWall].
	At time.Time
}

// Ends returns when the lease ends if no call renews or releases it.
func (l *Lease) Ends() time.Duration {
	if l.ReleaseAt > 0 {
		return l.ReleaseAt
	}
	return l.Expires
}

// HeldKey returns the key that the lease holds: only those of the first type of their request do.
func (l *Lease) HeldKey() string {
	if l.AskedType != "" {
		return ""
	}
	return l.Key
}

// together returns how many units its request got of its pool, as far as l knows.
func (l *Lease) together() int {
	if l.AskedType == "" {
		return max(l.Count, l.Units)
	}
	for _, a := range l.Others() {
		if a.Type == l.Type {
			return max(a.Count, l.Units)
		}
	}
	return l.Units
}

// OfVersion1 reports whether nobody can renew l: its client knows no request id.
func (l *Lease) OfVersion1() bool { return l.RequestID == "" }

// Ref names a lease the way a caller knows it.
type Ref struct {
	Name string
	// Generation of the grant; zero means the current one.
	Generation uint64
	// Request that must have got the lease, as its caller calls it; empty means any.
	Request string
	// Owner that must hold the name; empty means any.
	Owner string
	// KnownAt is when the caller learned of the lease, by the wall clock: one that was granted
	// more than [KnownTolerance] later is not meant. Zero means any.
	KnownAt time.Time
	// Hidden: the caller may not know of the name, which is to it like one that never was.
	Hidden bool
}

// matches reports whether l is the lease that r means.
func (r *Ref) matches(l *Lease) bool {
	return !r.Hidden && (r.Generation == 0 || r.Generation == l.Generation) &&
		(r.Request == "" || r.Request == PlainID(l.RequestID)) &&
		(r.Owner == "" || r.Owner == l.Owner) &&
		(r.KnownAt.IsZero() || !l.At.After(r.KnownAt.Add(KnownTolerance)))
}

// Reason is why a lease ended, or why a call could not have it. The empty
// Reason means that nothing stood in the way.
type Reason string

// The reasons, beside those of broken leases; see [Reason.Broken].
const (
	Expired  Reason = leaseapi.ReasonExpired  // nobody renewed it in time
	Released Reason = leaseapi.ReasonReleased // by a release, a cancellation included
	Other    Reason = leaseapi.ReasonOther    // the name is held, or was since, under another generation or owner
	Later    Reason = leaseapi.ReasonLater    // the owner got the name again after the caller had learned of it
	Taken    Reason = leaseapi.ReasonReserved // another owner has reserved the name, and nobody holds it
	Unknown  Reason = leaseapi.ReasonUnknown  // there is no such name, or no memory of such a grant
)

func brokenFor(why string) Reason { return Reason(leaseapi.ReasonBroken + why) }

// Broken reports whether r is the reason of a broken lease: [leaseapi.ReasonBroken], followed
// by the reason that the operator gave.
func (r Reason) Broken() bool { return strings.HasPrefix(string(r), leaseapi.ReasonBroken) }

// lease is a lease that is held.
type lease struct {
	Lease
	slot    *slot
	pool    *pool    // that granted it
	request *request // nil after a restart if the request was anonymous
	timer   timer
	pos     int    // in pool.held
	ending  ending // in pool.outlook
}

// compareGrants orders leases as they were granted.
func compareGrants(a, b *lease) int { return cmp.Compare(a.Generation, b.Generation) }

// valuesOf returns leases as they are now.
func valuesOf(held []*lease) []Lease {
	leases := make([]Lease, len(held))
	for i, l := range held {
		leases[i] = l.Lease
	}
	return leases
}

// install makes l the lease of its slot. The request of l is nil if it is not known.
func (g *ledger) install(l *lease) {
	p, r := l.pool, l.request
	l.timer.on = l
	l.slot.lease = l
	g.offerName(l.slot)
	p.held.put(l)
	p.heldUnits += l.Units
	l.foresee()
	if k := g.holdKey(p, l.HeldKey(), l.ReadsKey); k != nil {
		k.leases = append(k.leases, l)
	}
	g.held++
	g.use(l.Owner, usage{held: 1, bytes: l.bytes()})
	if r != nil {
		r.leases = append(r.leases, l)
	}
	g.schedule(&l.timer, l.Ends())
}

// Renew makes the lease that ref means end ttl from now, and keeps ttl for later renewals
// without one; a zero ttl keeps the present TTL. The pool's maximum bounds it. The first
// renewal makes a grant firm. A lease with a pending release can be renewed, but still ends at
// its release. A broken lease cannot be renewed, although it may still be held for a while.
//
// The Reason is empty, or says why the lease is no longer the caller's.
func (s *Set) Renew(now time.Duration, ref Ref, ttl time.Duration) (Lease, Reason) {
	s.Advance(now)
	l, why := s.meant(ref)
	if l == nil {
		return Lease{}, why
	}
	if l.Broken != "" {
		return Lease{}, brokenFor(l.Broken)
	}
	if ttl <= 0 {
		ttl = l.TTL
	}
	ttl = l.pool.ttl(ttl)
	durable := l.Provisional || ttl != l.TTL
	l.Provisional, l.TTL = false, ttl
	s.renew(l, l.TTL, durable)
	return l.Lease, ""
}

// renew makes l end ttl from now, unless something else ends it before. The renewal becomes a
// change if durable is set, or if it is the first since a restart or a stall: only such a
// change lets the next restart give l its full TTL again.
func (g *ledger) renew(l *lease, ttl time.Duration, durable bool) {
	durable = durable || l.Extended
	l.Expires, l.Extended = later(g.now, ttl), false
	g.schedule(&l.timer, l.Ends())
	if durable {
		g.note(Renewed).Lease = l.Lease
	}
}

// expire ends a lease whose time is over.
func (g *ledger) expire(l *lease) {
	switch {
	case l.ReleaseAt > 0:
		g.end(l, Released)
	case l.Broken != "":
		g.end(l, brokenFor(l.Broken))
	default:
		g.end(l, Expired)
	}
}

// end ends a lease. The request ends with the last of its leases.
func (g *ledger) end(l *lease, why Reason) {
	g.noteUse(l)
	g.timers.remove(&l.timer)
	l.pool.held.remove(l)
	l.pool.heldUnits -= l.Units
	l.ending.move(ending{})
	g.held--
	g.use(l.Owner, usage{held: -1, bytes: -l.bytes()})
	g.touch(l.pool)

	sl := l.slot
	sl.lease, sl.lastGeneration, sl.lastReason = nil, l.Generation, why
	took := g.now - l.Granted
	// A holder that never confirmed its grant may not have worked, and a broken lease does not
	// show how long jobs take.
	if !l.Provisional && l.Broken == "" {
		l.pool.outlook.past.add(took)
	}
	c := g.note(Done)
	c.Lease = l.Lease
	c.Reason, c.Took = why, took
	if delay := l.lockDelay(); why != Released && delay > 0 {
		g.lock(sl, l.pool, Locked{Name: l.Name, Type: l.Type, Units: l.Units, Key: l.HeldKey(), ReadsKey: l.ReadsKey, Until: later(g.now, delay)})
		if why == Expired { // or a caller with a small share would lock all names, one after the other
			sl.lock.owner = l.Owner
			g.use(l.Owner, usage{held: 1})
		}
	} else {
		g.free(sl)
	}
	g.freeKey(l.pool, l.HeldKey(), l)

	r := l.request
	if r == nil || r.Anonymous {
		return
	}
	r.removeLease(l)
	if l.AskedType == "" {
		r.units = l.used()
	}
	if why != Released || l.Broken != "" {
		g.lose(r)
	}
	if len(r.leases) == 0 {
		g.requests.remove(r)
		g.remember(Ended{ID: r.ID, Unconfirmed: l.Provisional && why == Expired, Lease: g.settle(r, &l.Lease)})
		g.conclude(r)
	}
}

// lose notes that a lease of r, which has ended, was lost. The leases that r still holds say so,
// too: after a restart nothing else is known of r.
func (g *ledger) lose(r *request) {
	if r.lost {
		return
	}
	r.lost = true
	if len(r.leases) == 0 {
		return
	}
	for _, l := range r.leases {
		l.OtherLost = true
	}
	g.note(LostOther).Leases = r.values()
}

// removeLease takes out l, which has ended. At the head, where most leases end, it moves
// nothing.
func (r *request) removeLease(l *lease) {
	i, _ := slices.BinarySearchFunc(r.leases, l, compareGrants)
	if i > 0 {
		r.leases = slices.Delete(r.leases, i, i+1)
		return
	}
	r.leases[0] = nil // let go of it
	r.leases = r.leases[1:]
}
