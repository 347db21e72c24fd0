package pool

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const hour = time.Hour

// After a restart renewable leases have their full TTL again, provisional leases their 30 s,
// and leases with a pending release the time that was left.
func TestRestoreTimes(t *testing.T) {
	set := one(t, 4)
	must(t, set, 0, Request{ID: "firm", Type: "t", TTL: time.Minute}, "t-0")
	must(t, set, 0, Request{ID: "delayed", Type: "t"}, "t-1")
	set.Renew(0, Ref{Name: "t-0"}, 0)
	set.Release(0, Ref{Name: "t-1"}, hour)
	must(t, set, 20*s, Request{ID: "provisional", Type: "t"}, "t-2")
	must(t, set, 40*s, Request{ID: "once", Type: "t", Anonymous: true}, "t-3")
	must(t, set, 40*s, req("waits"))

	back := restarted(t, set, Config{Type: "t", Names: numbered("t", 4)})
	for name, want := range map[string]time.Duration{
		"t-0": 40*s + time.Minute, "t-1": hour, "t-2": 40*s + ProvisionalTTL, "t-3": 40*s + DefaultTTL,
	} {
		if l := back.slots[name].lease; l == nil || l.Ends() != want || l.timer.due != want {
			t.Errorf("%s: %+v, want it to end at %v", name, l, want)
		}
	}
	must(t, back, 41*s, Request{ID: "provisional", Type: "t"}, "t-2")
	refuse(t, back, 41*s, Request{ID: "firm", Type: "t", Owner: "you"}, ErrConflict)
	must(t, back, 41*s, req("waits")) // it has its place back
	if _, waiting := back.Busy(); waiting != 1 {
		t.Errorf("%d wait, want 1", waiting)
	}
}

func TestRestoreEndedAndGenerations(t *testing.T) {
	set := one(t, 1)
	last := must(t, set, 10*s, req("a"), "t-0")[0].Generation
	set.Cancel(10*s, "a")
	back := restarted(t, set, Config{Type: "t", Names: numbered("t", 1)})
	refuse(t, back, 10*s+EndedKept-1, req("a"), ErrEnded)
	if got := must(t, back, 20*s, req("b"), "t-0")[0].Generation; got <= last {
		t.Errorf("generation %d after %d", got, last)
	}

	// The counter may have been saved before the lease was.
	snap := Snapshot{Generation: 3, Leases: []Lease{{Name: "t-0", Type: "t", Generation: 5, Units: 1, TTL: s}}}
	back, err := New([]Config{{Type: "t", Names: numbered("t", 2)}}, snap, PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	if got := must(t, back, 0, req("b"), "t-1")[0].Generation; got != 6 {
		t.Errorf("generation %d after 5", got)
	}
}

// A lease that is no longer configured stays held, counts, and then is gone.
func TestRestoreDrains(t *testing.T) {
	set := with(t, Config{Type: "t", Names: []string{"a", "b", "c"}}, Config{Type: "u", Names: []string{"d", "f"}})
	must(t, set, 0, Request{ID: "1", Type: "t", Ask: Ask{Count: 3}}, "a", "b", "c")
	must(t, set, 0, Request{ID: "2", Type: "u", Ask: Ask{Count: 2}}, "d", "f")
	snap := set.Snapshot()

	// c and the type u are gone; b now belongs to a new pool.
	back, err := New([]Config{{Type: "t", Names: []string{"a", "e"}}, {Type: "v", Names: []string{"b"}}}, snap, PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	refuse(t, back, 1*s, Request{ID: "x", Type: "u"}, ErrUnknownType)
	must(t, back, 1*s, req("3")) // e is free, but three of two are in use
	must(t, back, 1*s, Request{ID: "4", Type: "v"})
	back.Drain()
	if pools := back.Pools(1 * s); len(pools) != 3 || pools[2].Type != "u" || pools[2].Capacity != 0 || pools[2].InUse != 2 || pools[0].InUse != 3 {
		t.Errorf("pools %+v", pools)
	}
	back.Release(2*s, Ref{Name: "c"}, 0)
	changed(t, back, "released c")
	if why := back.Release(2*s, Ref{Name: "c"}, 0); why != "" {
		t.Errorf("a drained name is %q, want it released", why)
	}
	back.Release(3*s, Ref{Name: "b"}, 0)
	changed(t, back, "released b", "granted 3 [e]", "granted 4 [b]")
	back.Release(4*s, Ref{Name: "d"}, 0)
	back.Release(4*s, Ref{Name: "f"}, 0)
	if pools := back.Pools(4 * s); len(pools) != 2 {
		t.Errorf("a drained pool is still there: %+v", pools)
	}
}

// The order of a snapshot does not matter.
func TestRestoreIsDeterministic(t *testing.T) {
	set := one(t, 5)
	for _, id := range []string{"a", "b", "c", "d"} {
		must(t, set, 0, req(id), "t-"+string(id[0]-'a'+'0'))
	}
	set.Cancel(1*s, "b")
	set.Cancel(1*s, "a")
	snap := set.Snapshot()
	reversed := snap
	reversed.Leases, reversed.Ended = slices.Clone(snap.Leases), slices.Clone(snap.Ended)
	slices.Reverse(reversed.Leases)
	slices.Reverse(reversed.Ended)
	var outcomes [][]string
	for _, snap := range []Snapshot{snap, reversed} {
		back, err := New([]Config{{Type: "t", Names: numbered("t", 5)}}, snap, PriorityAging)
		if err != nil {
			t.Fatal(err)
		}
		must(t, back, 2*s, Request{ID: "x", Type: "t", Ask: Ask{Count: 3}}, "t-0", "t-1", "t-4")
		back.Advance(2 * EndedKept)
		outcomes = append(outcomes, words(back.Drain()))
	}
	if !slices.Equal(outcomes[0], outcomes[1]) {
		t.Errorf("outcomes differ:\n%q\n%q", outcomes[0], outcomes[1])
	}
}

func TestRestoreRefusesContradictions(t *testing.T) {
	ok := Lease{Name: "t-0", Type: "t", Generation: 1, Units: 1, TTL: s, RequestID: "a"}
	for _, c := range []struct {
		name string
		snap Snapshot
		want string
	}{
		{"name twice", Snapshot{Leases: []Lease{ok, {Name: "t-0", Type: "t", Generation: 2, Units: 1, TTL: s}}}, "held twice"},
		{"generation twice", Snapshot{Leases: []Lease{ok, {Name: "t-1", Type: "t", Generation: 1, Units: 1, TTL: s}}}, "generation 1"},
		{"no TTL", Snapshot{Leases: []Lease{{Name: "t-0", Type: "t", Generation: 1, Units: 1}}}, "incomplete"},
		{"no units", Snapshot{Leases: []Lease{{Name: "t-0", Type: "t", Generation: 1, TTL: s}}}, "incomplete"},
		{"held and ended", Snapshot{Leases: []Lease{ok}, Ended: []Ended{{ID: "a"}}}, "there twice"},
	} {
		_, err := New([]Config{{Type: "t", Names: numbered("t", 2)}}, c.snap, PriorityAging)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}
