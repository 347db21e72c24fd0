package pool

import (
	"errors"
	"fmt"
	"time"
)

// The rules by which a limit moves. They are the same for all pools: an operator
// who does not know what an account bears does not know better ones. The simulation
// of scripts/bench shows what they come to (row adapt).
const (
	// moveBy is the part of the limit by which it moves.
	moveBy = 10
	// throttledWindow is how close together two leases have to be throttled. One
	// alone may be a mistake, or somebody else's doing.
	throttledWindow = 5 * time.Minute
	// surelyBelow is the limit below which one throttled lease is enough: with so
	// few leases, a second one comes too late.
	surelyBelow = 10
	// firstGate is how many times as many leases it takes to reach the limit at which
	// the pool was cut. It doubles with each failure up to lastGate, so that the
	// limit does not run into the same wall every hour.
	firstGate, lastGate = 4, 16
	// fullTenths is how many tenths of the limit have to be in use when a lease ends
	// well: an account that is not put to use says nothing of what it bears.
	fullTenths = 9
)

// Adapt makes a pool find its limit from what holders report; see [Set.Report].
type Adapt struct {
	Floor int // the least limit; zero: 1
	Start int // the first limit; zero: the capacity
}

// check reports what is wrong with a for a pool of capacity units.
func (a Adapt) check(capacity int) error {
	var errs []error
	if a.Floor < 0 || a.Floor > capacity {
		errs = append(errs, fmt.Errorf("the floor of the limit is %d: want 1 to the capacity of %d", a.Floor, capacity))
	}
	if a.Start < 0 || a.Start > capacity {
		errs = append(errs, fmt.Errorf("the limit starts at %d: want 1 to the capacity of %d", a.Start, capacity))
	} else if a.Start > 0 && a.Start < a.Floor {
		errs = append(errs, fmt.Errorf("the limit starts at %d, below its floor of %d", a.Start, a.Floor))
	}
	return errors.Join(errs...)
}

// Adaptation is where the limit of a pool stands, between a floor and a capacity
// which its caller knows. It knows nothing of pools: it is told what reports say.
//
// A cut remembers the limit that it cut as the wall. Below the wall the limit rises
// by a tenth at a time, up to one below it. From there it reaches the wall by one
// step, after more leases: the gate. If it is cut again there, the gate doubles. If
// leases that began at the wall end well, the wall is gone.
type Adaptation struct {
	Limit int
	Wall  int // the limit at which it was last cut; zero: it has passed that since, or was never cut
	Gate  int // how many times as many leases the next step to the wall takes; zero: four times

	// OK is how many units ended well since the last move while the account was put
	// to full use.
	OK int
	// Cut is the generation of the newest lease at the last cut. Reports of it and of
	// older ones do not cut again: these leases ran under the limit that was cut.
	Cut uint64
	// Risen is the generation of the newest lease at the last rise.
	Risen uint64
	// Suspect is the generation of the last lease that was throttled since the last
	// cut, of those that count, and SuspectAt is when that was reported. Zero: none
	// was.
	Suspect   uint64
	SuspectAt time.Duration
}

// throttled notes that the account throttled the lease of a generation, which cuts
// the limit or makes the lease a suspect; newest is the generation that was granted
// last.
func (a *Adaptation) throttled(now time.Duration, generation, newest uint64, floor int) {
	if generation <= a.Cut {
		return
	}
	alone := a.Suspect == 0 || a.Suspect == generation || now-a.SuspectAt > throttledWindow
	if alone && a.Limit >= surelyBelow {
		a.Suspect, a.SuspectAt = generation, now
		return
	}
	a.OK, a.Cut, a.Suspect, a.SuspectAt = 0, newest, 0, 0
	// Rounded up: as long as the limit is too high, all that is granted is throttled.
	to := max(floor, a.Limit-(a.Limit+moveBy-1)/moveBy)
	if to >= a.Limit {
		return
	}
	if a.atWall() {
		a.Gate = min(2*max(a.Gate, firstGate), lastGate)
	}
	a.Wall, a.Limit = a.Limit, to
}

// endedOK notes that units of a lease of a generation ended without being throttled,
// while the account was put to full use. That may raise the limit; newest is the
// generation that was granted last.
func (a *Adaptation) endedOK(units int, generation, newest uint64, capacity int) {
	if a.atWall() && generation <= a.Risen {
		return // most of it ran below the wall
	}
	need, to := a.Limit, a.Limit+max(1, a.Limit/moveBy)
	if a.Limit < a.Wall {
		if to = min(to, a.Wall-1); to <= a.Limit {
			need, to = need*max(a.Gate, firstGate), a.Limit+1
		}
	}
	if a.OK = min(a.OK+units, need); a.OK < need {
		return
	}
	if a.atWall() {
		a.Wall, a.Gate = 0, 0
	}
	if to = min(to, capacity); to > a.Limit {
		a.Limit, a.OK, a.Risen = to, 0, newest
	}
}

// takeBack takes back that units ended well.
func (a *Adaptation) takeBack(units int) { a.OK = max(0, a.OK-units) }

// atWall reports whether the limit has reached the one at which it was last cut.
func (a *Adaptation) atWall() bool { return a.Wall > 0 && a.Limit >= a.Wall }

// full reports whether inUse units put an account to full use that has a limit.
func full(inUse, limit int) bool { return 10*inUse >= fullTenths*limit }
