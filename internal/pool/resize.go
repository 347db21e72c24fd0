package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

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
	Need, Free, Held int // units: how many more were asked for, how many can be granted, how many stay held
	// Reason is what keeps the lease from growing: a pause, the lock delay that is the last which must be
	// over, or that the free units are for the waiter that is next. None: leases must end.
	Reason leaseapi.WaitReason
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("%v: need %d more, %d free; %d stay held", ErrNoRoom, e.Need, e.Free, e.Held)
}

// Is makes the error an [ErrNoRoom].
func (e *NoRoomError) Is(target error) bool { return target == ErrNoRoom }

// Resizing is the argument of [Set.Resize].
type Resizing struct {
	From int // how many units the lease holds, as far as the caller knows
	To   int // how many it will hold; less than 1 counts as 1
	// After is [Lease.Resizes] as the caller last knew it. Nil: the caller does not know it.
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
// [ErrTooMany] beyond the capacity. The pace of the pool does not delay it, but counts it as a grant of as
// many units.
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
	if pause, paused := g.pauseOf(p); paused {
		refused.Reason = leaseapi.WaitReason{Kind: leaseapi.WaitPaused, Text: pause.Reason}
		return refused
	}
	if !p.hasRoom(units, others, false) {
		more := min(others+units-p.limit.now(), others)
		if l := p.lockDelayOf(missing{more, more}); l != nil {
			refused.Reason = leaseapi.WaitReason{Kind: leaseapi.WaitLocked, Name: l.Name}
		}
		return refused
	}
	next, ok := p.first()
	if ok && next.turn() != nil {
		next = next.turn()
	}
	if ok && !p.hasRoom(next.units, others+units, next.Overcommit) {
		refused.Reason.Kind = leaseapi.WaitTurn
		return refused
	}
	return nil
}

// resize makes l hold units, and counts the resize.
func (g *ledger) resize(l *lease, units int) {
	p, before := l.pool, l.Units
	l.Resizes++
	if units != before {
		p.heldUnits += units - before
		l.Units = units
		l.foresee()
		g.touch(p)
	}
	c := g.note(Resized)
	c.Lease = l.Lease
	c.Before = before
	if units > before {
		if !p.hasWaiters() {
			p.nextSince = g.now
		}
		p.spend(g.now, units-before, g.generation)
		g.notePace(p)
	}
}
