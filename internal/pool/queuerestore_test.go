package pool

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// restart is a KILL and a start at a time of the lease clock.
func restart(t *testing.T, set *Set, now time.Duration) *Set {
	t.Helper()
	set.Advance(now)
	var configs []Config
	for _, p := range set.pools {
		configs = append(configs, p.Config)
	}
	set.Drain()
	back := restarted(t, set, configs...)
	return back
}

// busy is a pool of one name, which is held, with waiters.
func busy(t *testing.T, waiters ...string) *Set {
	t.Helper()
	set := one(t, 1)
	must(t, set, 0, Request{ID: "holder", Type: "t", Anonymous: true}, "t-0")
	for _, id := range waiters {
		must(t, set, 0, req(id))
	}
	return set
}

// A client that comes back after a restart has its old place. A client that has not come back
// holds back the waiters behind it for 10 s, newcomers too, and keeps its place for a minute.
func TestRestoredQueue(t *testing.T) {
	set := restart(t, busy(t, "a", "b", "c"), 100*s)
	changed(t, set, "extended t-0", "missed a", "missed b", "missed c")
	set.Release(101*s, Ref{Name: "t-0"}, 0)
	changed(t, set, "released t-0") // granted to nobody: it is a's turn
	must(t, set, 102*s, req("c"))
	must(t, set, 102*s, req("new"))
	refuse(t, set, 102*s, Request{ID: "try", Type: "t", Try: true}, ErrExhausted)
	must(t, set, 103*s, req("b"))
	changed(t, set, "returned c", "returned b")
	nextIs(t, set, 110*s)
	set.Advance(110 * s)
	changed(t, set, "granted b [t-0]")
	must(t, set, 159*s, req("a")) // it still is first
	set.Release(159*s, Ref{Name: "t-0"}, 0)
	changed(t, set, "expired t-0", "remembered b", "granted c [t-0]", "returned a", "released t-0", "remembered c", "granted a [t-0]")
	_, waiting := set.Busy()
	if waiting != 1 {
		t.Errorf("%d wait, want the newcomer", waiting)
	}
}

// The time that a waiter has to come back begins with the first restart after which it did not.
// A waiter that came back gets the time anew.
func TestFurtherRestartsGiveWaitersNoMoreTime(t *testing.T) {
	set := restart(t, busy(t, "dead", "alive"), 100*s)
	set.Drain()
	must(t, set, 104*s, req("alive"))
	set = restart(t, set, 109*s)
	changed(t, set, "missed alive")
	set.Release(109*s, Ref{Name: "t-0"}, 0)
	must(t, set, 109*s, req("alive"))
	changed(t, set, "released t-0", "returned alive")
	set.Advance(110 * s)
	changed(t, set, "granted alive [t-0]")
	set = restart(t, set, 159*s)
	set.Drain()
	set.Advance(160 * s)
	changed(t, set, "dropped dead: <nil>")
}

// Waiters from before a restart are dropped if they are no longer configured, or too large.
func TestRestoredWaitersAreDismissed(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 3)}, Config{Type: "u", Names: []string{"x"}})
	must(t, set, 0, Request{ID: "all", Type: "t", Ask: Ask{Count: 3}, Anonymous: true}, "t-0", "t-1", "t-2")
	must(t, set, 0, Request{ID: "x", Type: "u", Anonymous: true}, "x")
	must(t, set, 0, Request{ID: "large", Type: "t", Ask: Ask{Count: 2}})
	must(t, set, 0, req("small"))
	must(t, set, 0, Request{ID: "gone", Type: "u"})
	back := restarted(t, set, Config{Type: "t", Names: []string{"t-0"}})
	var dropped []string
	for _, w := range words(back.Drain()) {
		if strings.HasPrefix(w, "dropped") {
			dropped = append(dropped, w)
		}
	}
	want := []string{
		"dropped large: the pool can never give that many: 2 asked for, 1 there",
		"dropped gone: there is no pool of this type",
	}
	if !slices.Equal(dropped, want) {
		t.Errorf("dropped %q, want %q", dropped, want)
	}
	if snap := back.Snapshot(); len(snap.Waiters) != 1 || snap.Waiters[0].ID != "small" {
		t.Errorf("waiters %+v", snap.Waiters)
	}
}

// A lease has its full TTL again after a restart or a stall, once: only a renewal lets the next
// one give it more. Neither delays a pending release.
func TestFullTTLOnce(t *testing.T) {
	for _, c := range []struct {
		name      string
		interrupt func(t *testing.T, set *Set, now time.Duration) *Set
	}{
		{"restart", restart},
		{"stall", func(_ *testing.T, set *Set, now time.Duration) *Set { set.Drain(); set.Stalled(now); return set }},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := one(t, 3)
			for _, id := range []string{"a", "delayed", "broken"} {
				set.Acquire(0, Request{ID: id, Type: "t", TTL: 30 * s, Anonymous: true})
			}
			set.Release(0, Ref{Name: "t-1"}, 35*s)
			set.Break(0, "t-2", Act{Reason: "why"}, false)
			set = c.interrupt(t, set, 20*s)
			changed(t, set, "extended t-0", "extended t-1")
			set.Advance(30 * s)
			changed(t, set, "broken: why t-2")
			set = c.interrupt(t, set, 34*s)
			changed(t, set)
			if _, why := set.Renew(34*s, Ref{Name: "t-0"}, 0); why != "" {
				t.Fatal(why)
			}
			changed(t, set, "renewed t-0")
			set.Renew(34*s, Ref{Name: "t-0"}, 0)
			changed(t, set) // only the first renewal needs a commit
			set.Advance(35 * s)
			changed(t, set, "released t-1")
			set = c.interrupt(t, set, 60*s)
			changed(t, set, "extended t-0")
			set = c.interrupt(t, set, 89*s)
			changed(t, set)
			set.Advance(90*s - 1)
			changed(t, set)
			set.Advance(90 * s)
			changed(t, set, "expired t-0")
		})
	}
}

// A lease that ended during a stall gets its full TTL again before its name is granted.
func TestStallComesBeforeWhatIsDue(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, Request{ID: "a", Type: "t", TTL: 30 * s}, "t-0")
	set.Renew(0, Ref{Name: "t-0"}, 0)
	must(t, set, 0, req("here"))
	must(t, set, 0, req("away"))
	set.Detach(0, "away", 0)
	set.Drain()
	set.Stalled(70 * s)
	changed(t, set, "extended t-0", "missed away")
	nextIs(t, set, 80*s)
	if l, _ := set.Held(70*s, "t-0"); l.Expires != 100*s {
		t.Errorf("it ends at %v", l.Expires)
	}
}

// After a restart the pace counts from the last grant, even if its lease is no longer held.
func TestPaceOutlivesARelease(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 3), Pace: 10 * s})
	must(t, set, 100*s, Request{ID: "a", Type: "t", Ask: Ask{Count: 2}, Anonymous: true}, "t-0", "t-1")
	set.Release(101*s, Ref{Name: "t-0"}, 0)
	set.Release(101*s, Ref{Name: "t-1"}, 0)
	set = restart(t, restart(t, set, 102*s), 103*s)
	must(t, set, 103*s, req("b"))
	nextIs(t, set, 120*s)
}

func TestRestoreRefusesQueuesThatContradict(t *testing.T) {
	lease := Lease{Name: "t-0", Type: "t", Generation: 1, Units: 1, TTL: s, RequestID: "a"}
	waiter := Waiter{Request: Request{ID: "b", Type: "t", Ask: Ask{Count: 1}}, Units: 1, Arrival: 1}
	again := waiter
	again.ID = "a"
	for _, c := range []struct {
		snap Snapshot
		want string
	}{
		{Snapshot{Waiters: []Waiter{waiter, waiter}}, `"b" is there twice`},
		{Snapshot{Leases: []Lease{lease}, Waiters: []Waiter{again}}, `"a" is there twice`},
		{Snapshot{Ended: []Ended{{ID: "b"}}, Waiters: []Waiter{waiter}}, `"b" is there twice`},
		{Snapshot{Waiters: []Waiter{{Request: Request{ID: "c", Type: "t"}}}}, "incomplete"},
		{Snapshot{Leases: []Lease{lease}, Locked: []Locked{{Name: "t-0", Type: "t"}}}, "has a lock delay"},
	} {
		if _, err := New([]Config{{Type: "t", Names: numbered("t", 2)}}, c.snap, PriorityAging); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
