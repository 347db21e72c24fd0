package pool

import (
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// urgent is a request for one unit that may exceed the limit.
func urgent(id string) Request { return Request{ID: id, Type: "t", Ask: Ask{Overcommit: true}} }

// An overcommit is granted although the pool is full or paused, up to what the pool allows. It
// counts: nothing else is granted until the pool is within its limit again.
func TestOvercommit(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 2, Overcommit: 2})
	must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 2}}, "t-1", "t-2")
	must(t, set, 0, req("waits"))
	must(t, set, 0, urgent("u1"), "t-3")
	must(t, set, 0, urgent("u2"), "t-4")
	must(t, set, 0, urgent("u3"))
	if st, _ := set.Status(0, "u3"); st.Place != 1 || st.InUse != 4 || st.Limit != 2 || st.Reason.String() != "full" {
		t.Errorf("%+v", st)
	}
	set.Drain()
	set.Release(0, Ref{Name: "t-1"}, 0)
	changed(t, set, "released t-1", "granted u3 [t-5]") // before the one that arrived first
	set.Release(0, Ref{Name: "t-2"}, 0)
	set.Release(0, Ref{Name: "t-3"}, 0)
	changed(t, set, "released t-2", "remembered a", "released t-3", "remembered u1")
	set.Release(0, Ref{Name: "t-4"}, 0)
	changed(t, set, "released t-4", "remembered u2", "granted waits [t-6]")

	set.Pause(0, "t", Act{Reason: "drill"})
	must(t, set, 0, urgent("u4"), "t-7")
	refuse(t, counted(t, 2), 0, urgent("u"), ErrNoOvercommit)
	refuse(t, one(t, 2), 0, urgent("u"), ErrNamesOvercommit)
}

// An overcommit waits for its key, and then goes before others that wait for it.
func TestOvercommitWaitsForItsKey(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 2, Overcommit: 1})
	must(t, set, 0, keyed("a", "k"), "t-1")
	must(t, set, 0, keyed("b", "k"))
	u := urgent("u")
	u.Key = "k"
	must(t, set, 0, u)
	set.Drain()
	set.Cancel(0, "a")
	changed(t, set, "released t-1", "remembered a", "granted u [t-2]")
}

// An overcommit does not wait for the pace, but spends it: the next grant comes later.
func TestOvercommitSpendsThePace(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 9, Overcommit: 1, Pace: 10 * s})
	must(t, set, 0, req("a"), "t-1")
	must(t, set, 1*s, req("b"))
	must(t, set, 2*s, urgent("u"), "t-2")
	set.Drain()
	for _, c := range []struct {
		now     time.Duration
		granted bool
	}{{10 * s, false}, {20*s - 1, false}, {20 * s, true}} {
		if next, _ := set.Next(); next < c.now && c.now == 20*s {
			t.Errorf("Next is %v", next)
		}
		set.Advance(c.now)
		if st, _ := set.Status(c.now, "b"); (st.State == StateGranted) != c.granted {
			t.Errorf("at %v b is %+v", c.now, st)
		}
	}
}

// The first waiter waits for a key that an overcommit takes meanwhile: the waiters behind it go
// on.
func TestOvercommitTakesAKey(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 4, Overcommit: 4, Overtake: strictly})
	must(t, set, 0, weighs("a", 3), "t-1")
	large := weighs("large", 2)
	large.Key = "k"
	must(t, set, 0, large)
	must(t, set, 0, weighs("small", 1))
	u := urgent("u")
	u.Key, u.Weighted, u.Count = "k", true, 1
	must(t, set, 0, u, "t-2")
	set.Cancel(0, "a")
	if st, _ := set.Status(0, "small"); st.State != StateGranted {
		t.Errorf("small is %+v", st)
	}
	if st, _ := set.Status(0, "large"); st.Reason.Kind != leaseapi.WaitKey {
		t.Errorf("large is %+v", st)
	}
}

// What an overcommit takes ahead of the pace counts in units: a pace that is taken away, or is shorter,
// counts for it, too.
func TestOvercommitAheadOfAPaceThatGoes(t *testing.T) {
	config := Config{Type: "t", Units: 100, Overcommit: 10, Pace: time.Minute}
	for pace, due := range map[time.Duration]time.Duration{0: 3 * s, s: 61 * s, time.Minute: 61 * time.Minute} {
		set := with(t, config)
		must(t, set, 0, weighs("large", 60), "t-1")
		must(t, set, s, urgent("urgent"), "t-2")
		other := config
		other.Pace = pace
		mustReconfigure(t, set, 2*s, other)
		set.Drain()
		if _, err := set.Acquire(3*s, weighs("next", 1)); err != nil {
			t.Fatal(err)
		}
		set.Advance(due - 1)
		if st, _ := set.Status(due-1, "next"); due > 3*s && st.State != StateQueued {
			t.Errorf("with a pace of %v, it is %v a moment before %v", pace, st.State, due)
		}
		set.Advance(due)
		if st, _ := set.Status(due, "next"); st.State != StateGranted {
			t.Errorf("with a pace of %v, it is %v at %v", pace, st.State, due)
		}
	}
}
