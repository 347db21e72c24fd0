package pool

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// locking is a pool of n names with a lock delay of 15 s.
func locking(t *testing.T, n int) *Set {
	t.Helper()
	return with(t, Config{Type: "t", Names: numbered("t", n), LockDelay: 15 * s})
}

// A name whose lease expired, or was broken and not released, is not granted again for the lock
// delay, even after a restart. A released name is.
func TestLockDelay(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(set *Set) // ends the lease at 29 or 30 s
		want string
		over time.Duration // when it may be granted again; zero: at once
	}{
		{"expired", func(set *Set) { set.Advance(30 * s) }, "expired t-0", 45 * s},
		{"broken now", func(set *Set) { set.Break(29*s, "t-0", Act{Reason: "why"}, true); set.Advance(30 * s) }, "broken: why t-0", 44 * s},
		{"broken, not released", func(set *Set) { set.Break(1*s, "t-0", Act{Reason: "why"}, false); set.Drain(); set.Advance(30 * s) }, "broken: why t-0", 45 * s},
		{"broken, released", func(set *Set) {
			set.Break(1*s, "t-0", Act{Reason: "why"}, false)
			set.Drain()
			set.Release(29*s, Ref{Name: "t-0"}, 0)
		}, "released t-0", 0},
		{"released", func(set *Set) { set.Release(29*s, Ref{Name: "t-0"}, 0) }, "released t-0", 0},
		{"released late", func(set *Set) { set.Release(1*s, Ref{Name: "t-0"}, 29*s); set.Drain(); set.Advance(30 * s) }, "released t-0", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := locking(t, 1)
			must(t, set, 0, Request{ID: "a", Type: "t", TTL: 30 * s, Anonymous: true}, "t-0")
			must(t, set, 0, req("b"))
			set.Drain()
			c.end(set)
			if c.over == 0 {
				changed(t, set, c.want, "granted b [t-0]")
				return
			}
			changed(t, set, c.want, "locked t-0")
			nextIs(t, set, c.over)
			if p := set.Totals(30 * s)[0]; p.InUse != 1 || p.LockDelayed != 1 || p.LockedFor != c.over-30*s {
				t.Errorf("pool %+v", p)
			}
			set = restart(t, set, 31*s)
			must(t, set, 31*s, req("b"))
			changed(t, set, "missed b", "returned b")
			set.Advance(c.over - 1)
			changed(t, set)
			set.Advance(c.over)
			changed(t, set, "unlocked t-0", "granted b [t-0]")
		})
	}
}

// Each name that a pool lists has a state: the first thing that keeps others out.
func TestNameStatuses(t *testing.T) {
	set := locking(t, 5)
	firm(t, set, 0, "broken", "t-0")
	firm(t, set, 0, "holds", "t-1")
	set.Break(1*s, "t-0", Act{Reason: "drill"}, true)
	for _, name := range []string{"t-0", "t-1", "t-2"} {
		reserve(t, set, 1*s, name, "alice", 0)
	}
	want := []NameStatus{{"t-0", "lock delay", 16 * s}, {"t-1", "held", 0}, {"t-2", "reserved", 0}, {"t-3", "free", 0}}
	if got := set.NameStatuses(2*s, "t", 4); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := set.NameStatuses(16*s, "t", 1); got[0] != (NameStatus{"t-0", "reserved", 0}) {
		t.Errorf("after the lock delay: %+v", got)
	}
	if got := set.NameStatuses(16*s, "u", 4); got != nil {
		t.Errorf("of no pool: %+v", got)
	}
}

// A name that is no longer configured when its lock delay is over is not granted. A name that
// was moved meanwhile is granted in its new pool.
func TestLockDelayOverAReconfiguration(t *testing.T) {
	set := locking(t, 3)
	for _, id := range []string{"a", "b", "c"} {
		must(t, set, 0, Request{ID: id, Type: "t", TTL: 30 * s, Anonymous: true}, "t-"+string(id[0]-'a'+'0'))
	}
	set.Drain()
	set.Advance(30 * s)
	changed(t, set, "expired t-0", "locked t-0", "expired t-1", "locked t-1", "expired t-2", "locked t-2")
	mustReconfigure(t, set, 31*s, Config{Type: "t", Names: []string{"t-0"}}, Config{Type: "u", Names: []string{"t-1"}})
	must(t, set, 31*s, req("d"))
	must(t, set, 31*s, Request{ID: "e", Type: "u"})
	if p := set.Totals(31 * s)[0]; p.InUse != 3 || p.Capacity != 1 {
		t.Errorf("pool %+v", p)
	}
	set.Advance(45 * s)
	changed(t, set, "unlocked t-0", "unlocked t-1", "unlocked t-2", "granted d [t-0]", "granted e [t-1]")
}

// A waiter that lacks only lock-delayed units is told which lock delay, and until when at the
// latest: exactly then if no lease is held that may end before. A waiter that also waits for
// leases is told that the pool is full. A request that does not wait is told the same.
func TestLockDelayIsTold(t *testing.T) {
	type told struct {
		reason       string
		likely, most time.Duration
	}
	tell := func(st Status) told { return told{st.Reason.String(), st.Estimate, st.EstimateMax} }
	expect := func(t *testing.T, set *Set, now time.Duration, id string, want told) {
		t.Helper()
		if st, _ := set.Status(now, id); tell(st) != want {
			t.Errorf("%s is told %v, want %v", id, tell(st), want)
		}
		if w := set.Find(now, 1, func(_, other, _ string) bool { return other == id })[0].Waiter; (told{w.Reason.String(), w.Estimate, w.EstimateMax}) != want {
			t.Errorf("the list says %+v of %s, want %v", w, id, want)
		}
	}
	t.Run("names", func(t *testing.T) {
		set := locking(t, 3)
		for _, name := range []string{"t-0", "t-1", "t-2"} {
			firm(t, set, 0, "holds "+name, name)
		}
		for _, id := range []string{"a", "b", "c"} {
			must(t, set, 0, req(id))
		}
		set.Break(1*s, "t-1", Act{Reason: "drill"}, true)
		set.Break(3*s, "t-0", Act{Reason: "drill"}, true)
		expect(t, set, 4*s, "a", told{"lock delay of t-1", 0, 12 * s}) // or when t-2 is released
		expect(t, set, 4*s, "b", told{"lock delay of t-0", 12 * s, 14 * s})
		expect(t, set, 4*s, "c", told{"full", 0, 0})
		set.Cancel(4*s, "b")
		set.Cancel(4*s, "c")
		_, err := set.Acquire(4*s, Request{ID: "d", Type: "t", Try: true})
		if exhausted, ok := errors.AsType[*ExhaustedError](err); !ok || tell(exhausted.Status) != (told{"lock delay of t-0", 12 * s, 14 * s}) {
			t.Errorf("a request that does not wait is told %+v", exhausted)
		}
		set.Cancel(4*s, "a")
		set.Break(5*s, "t-2", Act{Reason: "drill"}, true)
		must(t, set, 5*s, Request{ID: "two", Type: "t", Ask: Ask{Count: 2}})
		expect(t, set, 16*s, "two", told{"lock delay of t-0", 2 * s, 2 * s})
	})
	t.Run("a key", func(t *testing.T) {
		set := with(t, Config{Type: "t", Units: 10, LockDelay: 15 * s})
		keyed := func(id string) Request { return Request{ID: id, Type: "t", Ask: Ask{Key: "k"}} }
		must(t, set, 0, keyed("x"), "t-1")
		must(t, set, 0, keyed("a"))
		must(t, set, 0, keyed("b"))
		expect(t, set, 0, "a", told{"key", 0, 0})
		set.Break(1*s, "t-1", Act{Reason: "drill"}, true)
		expect(t, set, 4*s, "a", told{"lock delay of t-1", 12 * s, 12 * s})
		expect(t, set, 4*s, "b", told{"lock delay of t-1", 0, 0}) // nobody knows for how long a holds it
	})
	// One name of a request is broken, and its other name is released later: the key is free
	// when both are over.
	t.Run("a key of two", func(t *testing.T) {
		set := with(t, Config{Type: "t", Names: numbered("t", 3), LockDelay: 15 * s})
		must(t, set, 0, Request{ID: "x", Type: "t", Ask: Ask{Count: 2, Key: "k"}}, "t-0", "t-1")
		must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Key: "k"}})
		set.Break(0, "t-0", Act{Reason: "drill"}, true)
		set.Release(0, Ref{Name: "t-1"}, 4*s)
		expect(t, set, 1*s, "a", told{"key", 14 * s, 14 * s})
		expect(t, set, 5*s, "a", told{"lock delay of t-0", 10 * s, 10 * s})
	})
	// A request above the limit waits until nothing is in use.
	t.Run("above the limit", func(t *testing.T) {
		set := with(t, Config{Type: "t", Units: 10, LockDelay: 15 * s, Adapt: &Adapt{Floor: 1, Start: 4}})
		must(t, set, 0, weighs("x", 2), "t-1")
		must(t, set, 0, weighs("large", 8))
		set.Break(0, "t-1", Act{Reason: "drill"}, true)
		expect(t, set, 5*s, "large", told{"lock delay of t-1", 10 * s, 10 * s})
	})
}
