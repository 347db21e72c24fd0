package pool

import (
	"errors"
	"fmt"
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
	// as many in a store. Two hours of 10,000 requests a second, or a client that cancels
	// invented ids, would take 20 GB of each. A million take 300 MB, no more than a full queue
	// does. They cover two hours at 140 requests a second, or 100 seconds at 10,000, which is
	// still longer than a copy is under way. If a copy does come later, its grant is
	// provisional.
	MaxEnded = 1_000_000
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

	// At is when it was granted, by the wall clock: see [Set.SetWall]. Zero: an older server
	// granted it, and did not write that down.
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

// Ended is a request id that never gets a lease again.
type Ended struct {
	ID    string
	Until time.Duration // on the lease clock: when it is forgotten
	// Unconfirmed: its grant expired before a renewal confirmed it. Nobody gave the grant back
	// or cancelled it.
	Unconfirmed bool
	Result      Result     // of the request that it had merged with; zero: it ended otherwise
	Removed     string     // why an operator took it off the queue; empty: no operator did
	Lease       EndedLease // the last lease that it held; zero: none
}

// Pause is a pool that an operator has stopped.
type Pause struct {
	Type   string
	Reason string
	Since  time.Duration // on the lease clock
}

// Locked is a name that nobody holds, but that is not granted yet because of the lock delay of
// its pool. The units and the key of the lease that ended are withheld, too.
type Locked struct {
	Name  string
	Type  string        // of the lease that ended
	Units int           // of it
	Key   string        // of it; may be empty
	Until time.Duration // on the lease clock

	ReadsKey bool // the lease read the key: those that read it, too, may have it meanwhile
}

// Pacing says from which grant the pace of a pool counts.
type Pacing struct {
	Type       string
	Generation uint64        // of the last lease that was granted
	Start      time.Duration // on the lease clock: when its grant counts as made
	Count      int           // how many units it granted; zero: there is no such pool
}

// Naming is the last name that a counted pool has made up. It outlives the pool: if the names
// began anew, a late release of an earlier lease by its name could end a later one.
type Naming struct {
	Type string
	Last int // the K of TYPE-K
}

// Snapshot is the durable part of a [Set]. Waiters without an id are not in it, nor is the
// configuration, nor why leases ended: renewing a lease that ended before a restart gives
// [Unknown].
type Snapshot struct {
	Clock      time.Duration
	Generation uint64 // the last one given
	Leases     []Lease
	Ended      []Ended
	Waiters    []Waiter
	Locked     []Locked
	Paced      []Pacing
	Named      []Naming
	Pauses     []Pause
	Reserved   []Reservation
	Reports    []Reports
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

// Why a Resize changes nothing.
var (
	ErrListed = errors.New("leases of this pool are names: only those of a counted pool can be resized")
	ErrStale  = errors.New("the lease holds another number of units than was said, or was resized since")
	ErrNoRoom = errors.New("there is no room to grow")
	ErrLost   = errors.New("the lease is lost")
)

// LostError is the [ErrLost] of a lease that the caller does not hold, with the reason.
type LostError struct{ Reason Reason }

func (e *LostError) Error() string { return fmt.Sprintf("%v: %s", ErrLost, e.Reason) }

// Is makes the error an [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// NoRoomError is the [ErrNoRoom] of a growth.
type NoRoomError struct {
	Need, Free, Held int    // units: how many more were asked for, how many can be granted, how many stay held
	Paused           string // why an operator has paused the pool; empty: it is not
	// Locked is the name whose lock delay is the last that must be over; empty: leases
	// must end, too.
	Locked string
	// Waiting: the free units are for the waiter that is next.
	Waiting bool
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("%v: need %d more, %d free; %d stay held", ErrNoRoom, e.Need, e.Free, e.Held)
}

// Is makes the error an [ErrNoRoom].
func (e *NoRoomError) Is(target error) bool { return target == ErrNoRoom }

// Units returns how many units an Acquire of q would ask for. It fails with
// [ErrUnknownType] or [ErrNoCost].
func (s *Set) Units(q Request) (int, error) {
	p := s.types[q.Type]
	if p == nil || p.retired {
		return 0, ErrUnknownType
	}
	return p.unitsOf(q)
}

// Resizing is the argument of [Set.Resize].
type Resizing struct {
	From int // how many units the lease holds, as far as the caller knows
	To   int // how many it will hold; less than 1 counts as 1
	// After is [Lease.Resizes] as the caller last knew it. Nil: the caller does not know it, as
	// older clients do not.
	After *int
}

// repeats reports whether r repeats the last resize of l. Without After, a resize to the
// present number of units counts as a repeat.
func (r Resizing) repeats(l *Lease) bool {
	return r.To == l.Units && (r.After == nil || *r.After == l.Resizes-1)
}

// follows reports whether r was made for l as it is now.
func (r Resizing) follows(l *Lease) bool {
	return r.From == l.Units && (r.After == nil || *r.After == l.Resizes)
}

// Resize changes how many units the lease that ref means holds, and nothing else of it. It
// happens at once or not at all: if holders waited to grow, they could wait for each other
// forever.
//
// To hold less always succeeds. To hold more fails with a [NoRoomError] if too few units are
// free, if the waiter that is next would no longer fit, or if the pool is paused; and with
// [ErrTooMany] beyond the capacity.
//
// Each resize that is decided counts in [Lease.Resizes], refusals included. So a late copy of
// an earlier resize does nothing and gets [ErrStale], like a resize whose From is wrong. A
// repeat of the last resize that was done succeeds. Without After a late copy does nothing
// either, unless the lease holds exactly From again.
//
// A lease of a listed pool gets [ErrListed]. A lease that has ended, or that was broken and
// asks for more, gets a [LostError]. With an error Resize also returns the lease as it is,
// unless the lease has ended.
func (s *Set) Resize(now time.Duration, ref Ref, r Resizing) (Lease, error) {
	s.Advance(now)
	r.To = max(r.To, 1)
	l, why := s.meant(ref)
	if l == nil {
		return Lease{}, &LostError{why}
	}
	switch {
	case !l.pool.counted() && l.Units == 1:
		return l.Lease, ErrListed
	case r.repeats(&l.Lease):
		return l.Lease, nil
	case !r.follows(&l.Lease):
		return l.Lease, ErrStale
	}
	if r.To > l.Units {
		if err := s.mayGrow(l, r.To); err != nil {
			s.resize(l, l.Units)
			return l.Lease, err
		}
	}
	s.resize(l, r.To)
	s.serve()
	return l.Lease, nil
}

// mayGrow returns why l must not grow to units; nil if it may.
func (g *ledger) mayGrow(l *lease, units int) error {
	p := l.pool
	if l.Broken != "" {
		return &LostError{brokenFor(l.Broken)}
	}
	if units > p.Capacity() {
		return p.tooMany(units)
	}
	others := p.taken() - l.Units
	refused := &NoRoomError{Need: units - l.Units, Free: max(0, p.limit.now()-p.taken()), Held: l.Units}
	if pause, paused := g.pauses[p.Type]; paused {
		refused.Paused = pause.Reason
		return refused
	}
	if !p.hasRoom(units, others, false) {
		more := min(others+units-p.limit.now(), others)
		if l := p.lockDelayOf(missing{more, more}); l != nil {
			refused.Locked = l.Name
		}
		return refused
	}
	next, ok := p.next.first()
	if ok && next.turn() != nil {
		next = next.turn()
	}
	if ok && !p.hasRoom(next.units, others+units, next.Overcommit) {
		refused.Waiting = true
		return refused
	}
	return nil
}

// resize makes l hold units, and counts the resize.
func (g *ledger) resize(l *lease, units int) {
	before := l.Units
	l.Resizes++
	if units != before {
		l.pool.heldUnits += units - before
		l.Units = units
		l.pool.outlook.invalidate()
		g.touch(l.pool)
	}
	c := g.note(Resized)
	c.Lease = l.Lease
	c.Before = before
}
