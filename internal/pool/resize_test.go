package pool

import (
	"errors"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

func mustResize(t testing.TB, set *Set, now time.Duration, r Ref, from, to int) {
	t.Helper()
	if l, err := set.Resize(now, r, Resizing{From: from, To: to}); err != nil || l.Units != to {
		t.Fatalf("resize of %s from %d to %d: %+v, %v", r.Name, from, to, l, err)
	}
}

func refuseResize(t testing.TB, set *Set, now time.Duration, r Ref, from, to int, want error) {
	t.Helper()
	before := set.Totals(now)[0].InUse
	if _, err := set.Resize(now, r, Resizing{From: from, To: to}); !errors.Is(err, want) {
		t.Fatalf("resize of %s from %d to %d: %v, want error %v", r.Name, from, to, err, want)
	}
	if after := set.Totals(now)[0].InUse; after != before {
		t.Fatalf("a resize that was refused changed what is in use from %d to %d", before, after)
	}
}

func TestResize(t *testing.T) {
	set := counted(t, 10)
	a := ref(must(t, set, 0, weighs("a", 4), "t-1")[0])
	must(t, set, 0, weighs("b", 4), "t-2")
	mustResize(t, set, 0, a, 4, 6)
	_, err := set.Resize(0, a, Resizing{From: 6, To: 9})
	if e, ok := err.(*NoRoomError); !ok || *e != (NoRoomError{Need: 3, Free: 0, Held: 6}) {
		t.Fatalf("error %+v", err)
	}
	refuseResize(t, set, 0, a, 6, 11, ErrTooMany)
	refuseResize(t, set, 0, a, 4, 5, ErrStale)
	refuseResize(t, set, 0, Ref{Name: "t-1", Owner: "other"}, 6, 5, ErrLost)
	refuseResize(t, set, 0, Ref{Name: "t-9"}, 6, 5, ErrLost)
	refuseResize(t, one(t, 1), 0, Ref{Name: "t-0"}, 1, 1, ErrLost)

	must(t, set, 0, weighs("c", 3)) // is granted what a gave back
	set.Drain()
	mustResize(t, set, 0, a, 6, 3)
	c := set.Drain()
	if len(c) != 3 || c[0].Kind != Resized || c[0].Lease.Units != 3 || c[0].Before != 6 || c[1].Kind != Granted || c[1].ID != "c" {
		t.Fatalf("changes %+v", c)
	}
	listed := one(t, 2)
	must(t, listed, 0, req("a"), "t-0")
	refuseResize(t, listed, 0, Ref{Name: "t-0"}, 1, 2, ErrListed)
}

// A late copy of a resize does nothing, and a repeated one succeeds.
func TestResizeAgain(t *testing.T) {
	set := counted(t, 10)
	a := ref(must(t, set, 0, weighs("a", 4), "t-1")[0])
	mustResize(t, set, 0, a, 4, 8)
	set.Drain()
	mustResize(t, set, 0, a, 4, 8)
	changed(t, set)
	mustResize(t, set, 0, a, 8, 2)
	refuseResize(t, set, 0, a, 4, 8, ErrStale)
}

// If the caller says after which resize its own comes, a late copy never does anything,
// whatever the lease holds meanwhile. A repeat of the last resize that was done succeeds, also
// after a restart.
func TestResizeCounts(t *testing.T) {
	set := counted(t, 10)
	lease := must(t, set, 0, weighs("a", 4), "t-1")[0]
	must(t, set, 0, weighs("b", 1), "t-2")
	step := func(after, from, to, resizes, units int, want error) {
		t.Helper()
		l, err := set.Resize(0, ref(lease), Resizing{From: from, To: to, After: &after})
		if !errors.Is(err, want) || l.Resizes != resizes || l.Units != units {
			t.Fatalf("after %d, from %d to %d: %d units, %d resizes, %v; want %d, %d, %v", after, from, to, l.Units, l.Resizes, err, units, resizes, want)
		}
	}
	step(0, 4, 8, 1, 8, nil)
	set = restarted(t, set, Config{Type: "t", Units: 10})
	set.Drain()
	step(0, 4, 8, 1, 8, nil) // its answer was lost
	changed(t, set)
	step(1, 8, 4, 2, 4, nil)
	set.Drain()
	step(0, 4, 8, 2, 4, ErrStale) // a late copy of the first; the lease holds 4 again
	changed(t, set)
	step(2, 4, 10, 3, 4, ErrNoRoom)
	changed(t, set, "resized t-1 to 4")
	set.Release(0, Ref{Name: "t-2"}, 0)
	step(2, 4, 10, 3, 4, ErrStale) // a late copy, for which there is room now
	step(3, 4, 11, 4, 4, ErrTooMany)
	step(4, 4, 4, 5, 4, nil) // as many as before; earlier resizes are now stale
	step(4, 4, 4, 5, 4, nil)
	step(4, 4, 6, 5, 4, ErrStale)
	step(9, 4, 6, 5, 4, ErrStale)
	step(9, 4, 4, 5, 4, ErrStale)
}

// A changed number of units outlives a restart, and nothing else of the lease changes.
func TestResizeOutlivesRestart(t *testing.T) {
	set := counted(t, 10)
	a := must(t, set, 0, weighs("a", 4), "t-1")[0]
	mustResize(t, set, 1*s, ref(a), 4, 7)
	set = restarted(t, set, Config{Type: "t", Units: 10})
	got := must(t, set, 1*s, weighs("a", 4), "t-1")[0]
	a.Units, a.Resizes, a.Expires, a.Extended = 7, 1, got.Expires, got.Extended
	if got != a || inUse(set, 1*s) != 7 {
		t.Errorf("%+v, want %+v", got, a)
	}
}

// A growth takes no room from the waiter that is next. It is refused while that waiter is
// active and lacks only room, or while the pace delays it and it would not fit afterwards. A
// waiter for a busy key, or one that is away, does not prevent growth.
func TestGrowthDoesNotOvertake(t *testing.T) {
	set := counted(t, 10)
	a := ref(must(t, set, 0, weighs("a", 4), "t-1")[0])
	k := weighs("k", 3)
	k.Key = "k"
	must(t, set, 0, k, "t-2")
	waits := weighs("waits", 5)
	must(t, set, 0, waits)
	refuseResize(t, set, 0, a, 4, 5, ErrNoRoom)
	if _, err := set.Resize(0, a, Resizing{From: 4, To: 5}); err.(*NoRoomError).Reason.Kind != leaseapi.WaitTurn {
		t.Errorf("%+v", err)
	}
	set.Detach(0, "waits", 0)
	mustResize(t, set, 0, a, 4, 5)
	mustResize(t, set, 0, a, 5, 4)
	set.Cancel(0, "waits")
	blocked := weighs("blocked", 3)
	blocked.Key = "k"
	must(t, set, 0, blocked)
	mustResize(t, set, 0, a, 4, 7)

	set = with(t, Config{Type: "t", Units: 10, Pace: 1 * s})
	a = ref(must(t, set, 0, weighs("a", 4), "t-1")[0])
	must(t, set, 0, waits)
	refuseResize(t, set, 0, a, 4, 6, ErrNoRoom)
	mustResize(t, set, 0, a, 4, 5)
}

// No lease grows in a paused pool, and no broken lease grows; both may shrink.
func TestGrowthOfWhatIsStopped(t *testing.T) {
	set := counted(t, 10)
	a := ref(must(t, set, 0, weighs("a", 4), "t-1")[0])
	set.Pause(0, "t", Act{Reason: "drill"})
	if _, err := set.Resize(0, a, Resizing{From: 4, To: 5}); err == nil || err.(*NoRoomError).Reason.String() != "paused: drill" {
		t.Errorf("%+v", err)
	}
	mustResize(t, set, 0, a, 4, 3)
	set.Resume(0, "t", Act{})
	mustResize(t, set, 0, a, 3, 4)
	set.Break(0, "t-1", Act{Reason: "drill"}, false)
	refuseResize(t, set, 0, a, 4, 5, ErrLost)
	mustResize(t, set, 0, a, 4, 2)
}

// A refused growth that only lock delays prevent names the last of these lock delays.
func TestGrowthAfterALockDelay(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 10, LockDelay: hour})
	a := ref(must(t, set, 0, weighs("a", 2), "t-1")[0])
	must(t, set, 0, weighs("b", 2), "t-2")
	must(t, set, 0, weighs("c", 2), "t-3")
	must(t, set, 0, weighs("d", 3), "t-4")
	mustBreak(t, set, 1*s, "t-3", true)
	mustBreak(t, set, 2*s, "t-2", true)
	for to, want := range map[int]string{4: "lock delay of t-3", 5: "lock delay of t-3", 6: "lock delay of t-2", 7: "lock delay of t-2", 8: ""} {
		_, err := set.Resize(2*s, a, Resizing{From: 2, To: to})
		if e, ok := err.(*NoRoomError); !ok || e.Need != to-2 || e.Free != 1 || e.Held != 2 || e.Reason.String() != want {
			t.Errorf("to %d: %+v, want %q", to, err, want)
		}
	}
	mustBreak(t, set, 3*s, "t-4", true)
	set.types["t"].limit = limit{capacity: 4} // the lease may exceed it alone
	if _, err := set.Resize(3*s, a, Resizing{From: 2, To: 9}); err == nil || err.(*NoRoomError).Reason.Name != "t-4" {
		t.Errorf("beyond the limit: %+v", err)
	}
}

// A lease that is alone may grow beyond the limit, as a lone request is granted beyond it.
func TestGrowthBeyondTheLimit(t *testing.T) {
	set := counted(t, 10)
	set.types["t"].limit = limit{capacity: 4}
	a := ref(must(t, set, 0, weighs("a", 4), "t-1")[0])
	mustResize(t, set, 0, a, 4, 9)
	must(t, set, 0, weighs("b", 1))
	refuseResize(t, set, 0, a, 9, 10, ErrNoRoom) // b is next
	set.Cancel(0, "b")
	mustResize(t, set, 0, a, 9, 3)
	must(t, set, 0, weighs("c", 1), "t-2")
	refuseResize(t, set, 0, a, 3, 4, ErrNoRoom)
}

// The pace does not delay a growth, but counts it as a grant of as many units, also over a restart. To
// give units back takes nothing back of that.
func TestGrowthIsPaced(t *testing.T) {
	configs := []Config{{Type: "t", Units: 100, Pace: time.Minute}}
	set := with(t, configs...)
	l := must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 1, Weighted: true}}, "t-1")
	set.Renew(0, ref(l[0]), 24*hour)
	mustResize(t, set, 0, ref(l[0]), 1, 5)
	mustResize(t, set, 0, ref(l[0]), 5, 2)
	must(t, set, 0, Request{ID: "b", Type: "t"})
	if st, _ := set.Status(0, "b"); st.Reason.Kind != leaseapi.WaitPaced {
		t.Errorf("%+v", st)
	}
	if due, _ := set.Next(); due != 5*time.Minute {
		t.Errorf("the next grant is due at %v", due)
	}
	set, err := New(configs, set.Snapshot(), 0)
	if err != nil {
		t.Fatal(err)
	}
	must(t, set, s, Request{ID: "b", Type: "t"})
	set.Advance(5*time.Minute - 1)
	if st, _ := set.Status(5*time.Minute-1, "b"); st.State != StateQueued {
		t.Errorf("granted early: %+v", st)
	}
	if st, _ := set.Status(5*time.Minute, "b"); st.State != StateGranted {
		t.Errorf("not granted when it is due: %+v", st)
	}
	set.Cancel(hour, "b")
	mustResize(t, set, 2*hour, ref(l[0]), 2, 4) // after an idle time, of which nothing is saved up
	must(t, set, 2*hour, Request{ID: "c", Type: "t"})
	if due, _ := set.Next(); due != 2*hour+2*time.Minute {
		t.Errorf("the next grant is due at %v", due)
	}
}
