package pool

import (
	"testing"
	"time"
)

// tested is a limit that the test moves; each lease has the next generation.
type tested struct {
	*testing.T
	Adaptation
	now             time.Duration
	newest          uint64
	floor, capacity int
}

func adapting(t *testing.T, start int) *tested {
	return &tested{T: t, Adaptation: Adaptation{Limit: start}, floor: 8, capacity: 64}
}

// report reports as throttled a lease that was granted just now.
func (a *tested) report() {
	a.newest++
	a.throttled(a.now, a.newest, a.newest, a.floor)
}

// cut makes two reports.
func (a *tested) cut() { a.report(); a.report() }

// ok ends n leases of one unit well, all granted just now.
func (a *tested) ok(n int) {
	for range n {
		a.newest++
		a.endedOK(1, a.newest, a.newest, a.capacity)
	}
}

func (a *tested) want(limit int) {
	a.Helper()
	if a.Limit != limit {
		a.Fatalf("the limit is %d, want %d", a.Limit, limit)
	}
}

// A cut takes two throttled leases within five minutes, or one if the limit is below 10.
func TestCut(t *testing.T) {
	a := adapting(t, 32)
	a.report()
	a.throttled(a.now, a.newest, a.newest, a.floor) // the same lease again
	a.want(32)
	a.now += throttledWindow + 1
	a.report()
	a.want(32)
	a.now += throttledWindow
	a.report()
	a.want(28)

	a = adapting(t, 10)
	a.report()
	a.want(10)
	a.report()
	a.want(9)
	a.report()
	a.want(8)
	a.report()
	a.want(8) // the floor
}

// Where a part of the leases is usually reported as throttled, a cut takes more of them, each within
// five minutes of the one before.
func TestUsual(t *testing.T) {
	for _, test := range []struct{ throttled, ok, cuts int }{
		{0, 1000, 2}, {1, 98, 2}, {1, 0, 2}, {2, 98, 3}, {8, 792, 2}, {9, 791, 3}, {27, 773, 4}, {62, 738, 4}, {63, 737, 5}, {500, 500, 5},
	} {
		a := adapting(t, 32)
		a.UsualThrottled, a.UsualOK = test.throttled, test.ok
		for range test.cuts - 1 {
			a.report()
			a.want(32)
			a.now += throttledWindow
		}
		a.report()
		a.want(28)
	}
	a := adapting(t, 32)
	a.UsualThrottled, a.UsualOK = 20, 480
	a.report()
	a.report()
	a.now += throttledWindow + 1
	a.report() // too late: it is the first of the next ones
	a.report()
	a.want(32)
	if a.UsualThrottled != 22 || a.Suspects != 2 {
		t.Errorf("%d leases are usual and %d suspects, want 22 and 2", a.UsualThrottled, a.Suspects)
	}
	a.report()
	a.want(32)
	a.report()
	a.want(28)
	a = adapting(t, 9)
	a.UsualThrottled = 500
	a.report()
	a.want(8) // below 10 one is enough
}

// What is usual is counted below the wall, and is known of the last thousand leases.
func TestCountUsual(t *testing.T) {
	a := adapting(t, 32)
	a.countUsual(&a.UsualOK, 10)
	a.cut()
	a.countUsual(&a.UsualOK, 10)
	a.Limit = 32
	a.countUsual(&a.UsualOK, 10)
	a.now = throttledWindow + 1
	a.report()
	if a.UsualOK != 20 || a.UsualThrottled != 0 {
		t.Errorf("%d ended well and %d were throttled, want 20 and none", a.UsualOK, a.UsualThrottled)
	}
	a.Wall, a.UsualOK, a.UsualThrottled = 0, 900, 100
	a.countUsual(&a.UsualOK, 1)
	if a.UsualOK != 450 || a.UsualThrottled != 50 {
		t.Errorf("%d ended well and %d were throttled, want half of 901 and of 100", a.UsualOK, a.UsualThrottled)
	}
}

// All leases that ran together cut once: a lease from before the last cut does not cut again.
func TestOneCutForAllThatRanTogether(t *testing.T) {
	a := adapting(t, 32)
	a.newest = 32
	for generation := range a.newest {
		a.throttled(a.now, generation+1, a.newest, a.floor)
	}
	a.want(28)
	a.report()
	a.want(28) // one of the new leases
	a.throttled(a.now, 5, a.newest, a.floor)
	a.want(28) // and an old one
	a.report()
	a.want(25)
}

// The limit rises by a tenth each time as many units as the limit have ended well. A cut begins
// the count anew.
func TestRise(t *testing.T) {
	a := adapting(t, 20)
	a.ok(19)
	a.want(20)
	a.ok(1)
	a.want(22)
	a.ok(22)
	a.want(24)
	a.endedOK(23, 1, 1, a.capacity)
	a.report()
	a.want(24)
	a.ok(1)
	a.want(26) // one throttled lease alone changes nothing
	a.ok(20)
	a.cut()
	a.want(23)
	a.ok(22)
	a.want(23)
	a.ok(1)
	a.want(25)
	for range 9 {
		a.ok(20 * 64)
	}
	a.want(64) // the capacity
	a = adapting(t, 1)
	a.ok(1)
	a.want(2) // by one at least
}

// A limit stops one below the wall. It reaches the wall after four times as many leases, and
// after twice as many with each failure. Leases that are older than the step to the wall do not
// show that the account bears it.
func TestWall(t *testing.T) {
	a := adapting(t, 32)
	a.cut()
	a.want(28)
	for _, gate := range []int{4, 8, 16, 16} {
		a.ok(28)
		a.want(30)
		a.ok(30)
		a.want(31)
		a.ok(gate*31 - 1)
		a.want(31)
		a.ok(1)
		a.want(32)
		a.endedOK(100, a.Risen, a.newest, a.capacity)
		a.want(32)
		a.cut()
		a.want(28)
	}
	a.ok(28 + 30 + 16*31)
	a.want(32)
	a.ok(31)
	a.want(32)
	a.ok(1)
	a.want(35) // it has passed the wall
	a.cut()
	a.want(31)
	a.ok(31)
	a.want(34)
	a.ok(4*34 - 1)
	a.want(34)
	a.ok(1)
	a.want(35)
}

// A cut below the wall moves the wall, and keeps the gate.
func TestLowerWall(t *testing.T) {
	a := adapting(t, 32)
	a.cut()
	a.ok(28 + 30 + 4*31)
	a.want(32)
	a.cut() // the gate is 8 now
	a.cut()
	a.want(25)
	a.ok(25)
	a.want(27)
	a.ok(8*27 - 1)
	a.want(27)
	a.ok(1)
	a.want(28)
}

func TestTakeBack(t *testing.T) {
	a := adapting(t, 20)
	a.ok(19)
	a.takeBack(30)
	a.ok(19)
	a.want(20)
	a.ok(1)
	a.want(22)
}

func TestAdaptCheck(t *testing.T) {
	for _, test := range []struct {
		Adapt
		valid bool
	}{
		{Adapt{}, true}, {Adapt{Floor: 8, Start: 20}, true}, {Adapt{Floor: 32}, true}, {Adapt{Start: 32}, true},
		{Adapt{Floor: 33}, false}, {Adapt{Start: 33}, false}, {Adapt{Floor: -1}, false}, {Adapt{Start: -1}, false}, {Adapt{Floor: 9, Start: 8}, false},
	} {
		if err := test.check(32); (err == nil) != test.valid {
			t.Errorf("%+v: %v", test.Adapt, err)
		}
	}
}
