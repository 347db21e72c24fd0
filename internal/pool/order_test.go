package pool

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// prior is a request for one with a priority.
func prior(id string, priority int) Request {
	return Request{ID: id, Type: "t", Ask: Ask{Priority: priority}}
}

// A step of priority is worth the aging. So who has waited for long enough goes before those of a
// higher priority that came later; without aging, nobody of a lower priority does.
func TestPriority(t *testing.T) {
	for _, c := range []struct {
		aging time.Duration
		want  []string // the order in which they are granted
	}{
		{10 * s, []string{"urgent", "first", "second", "late", "low"}},
		{0, []string{"urgent", "late", "first", "second", "low"}},
	} {
		set, err := New([]Config{{Type: "t", Names: []string{"n"}}}, Snapshot{}, c.aging)
		if err != nil {
			t.Fatal(err)
		}
		must(t, set, 0, Request{ID: "holder", Type: "t", Anonymous: true}, "n")
		must(t, set, 1*s, prior("first", 0))
		must(t, set, 2*s, prior("low", -9))
		must(t, set, 3*s, prior("second", 0))
		must(t, set, 14*s, prior("late", 1))
		must(t, set, 15*s, prior("urgent", 5))
		for i, id := range c.want {
			set.Drain()
			set.Release(16*s+time.Duration(i), Ref{Name: "n"}, 0)
			if changes := set.Drain(); changes[len(changes)-1].ID != id {
				t.Errorf("aging %v: %s was granted, want %s", c.aging, changes[len(changes)-1].ID, id)
			}
		}
	}
}

// The order says how many stand before a waiter by a higher priority, and outlives restarts.
func TestPriorityIsKept(t *testing.T) {
	config := Config{Type: "t", Names: []string{"n"}}
	set := with(t, config)
	firm(t, set, 0, "holder", "n")
	must(t, set, 1*s, prior("a", 0))
	must(t, set, 2*s, prior("b", 7))
	must(t, set, 3*s, prior("c", 3))
	if _, _, err := set.Move(4*s, "a", 3, Act{Reason: "release"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for id, want := range map[string]Status{
			"a": {Place: 2, Order: Order{Priority: 3, Higher: 1}},
			"b": {Place: 1, Order: Order{Priority: 7}},
			"c": {Place: 3, Order: Order{Priority: 3, Higher: 1}},
		} {
			want.MayOvertake = 1
			if st, _ := set.Status(5*s, id); st.Place != want.Place || st.Order != want.Order {
				t.Errorf("%s: place %d, %+v, want %d, %+v", id, st.Place, st.Order, want.Place, want.Order)
			}
		}
		set = restarted(t, set, config)
	}
	must(t, set, 6*s, prior("a", 0)) // as it asked first
	refuse(t, set, 6*s, prior("a", 3), ErrConflict)
}

// A move counts at once: the waiter may be next, and even be granted.
func TestMove(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 10, Overtake: strictly})
	must(t, set, 0, weighs("a", 6), "t-1")
	must(t, set, 1*s, weighs("large", 8))
	must(t, set, 2*s, weighs("small", 2))
	set.Drain()
	w, before, err := set.Move(3*s, "small", 1, Act{Reason: "release"})
	if err != nil || before != 0 || w.PriorityNow != 1 || w.Priority != 0 {
		t.Errorf("%+v, %d, %v", w, before, err)
	}
	changed(t, set, "moved small to 1", "granted small [t-2]")
	for id, want := range map[string]error{"small": ErrNotQueued, "nobody": ErrUnknownRequest} {
		if _, _, err := set.Move(4*s, id, 1, Act{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
	set.Remove(5*s, "large", Act{Reason: "gone"})
	if _, _, err := set.Move(5*s, "large", 1, Act{}); !errors.Is(err, ErrEnded) {
		t.Errorf("%v", err)
	}
}

// A follower of a better rank takes its leader along; when it goes, the leader goes back.
func TestPriorityOfAFollower(t *testing.T) {
	set := one(t, 1)
	firm(t, set, 0, "holder", "t-0")
	must(t, set, 1*s, prior("other", 1))
	must(t, set, 2*s, merging("lead", Join, "v"))
	place := func(want int) {
		t.Helper()
		if st, _ := set.Status(9*s, "lead"); st.Place != want {
			t.Errorf("lead is at place %d, want %d: %+v", st.Place, want, st.Order)
		}
	}
	place(2)
	follower := merging("follower", Join, "v")
	follower.Priority = 2
	must(t, set, 3*s, follower)
	place(1)
	set.Cancel(4*s, "follower")
	place(2)
	must(t, set, 5*s, merging("second", Join, "v"))
	place(2)
	set.Move(6*s, "second", 9, Act{})
	place(1)
	set.Move(6*s, "second", 0, Act{})
	place(2)
}

// Who supersedes another has its place, and what overtook it there.
func TestPriorityOfASuccessor(t *testing.T) {
	config := Config{Type: "t", Units: 10}
	set := with(t, config)
	must(t, set, 0, weighs("a", 6), "t-1")
	old, successor := merging("old", Latest, "v"), merging("successor", Latest, "w")
	old.Weighted, old.Count, old.Priority = true, 8, 4
	successor.Weighted, successor.Count = true, 8
	must(t, set, 1*s, old)
	must(t, set, 2*s, weighs("small", 1), "t-2")
	must(t, set, 3*s, prior("other", 3), "t-3")
	must(t, set, 4*s, successor)
	set = restarted(t, set, config)
	if st, _ := set.Status(5*s, "successor"); st.Order != (Order{Priority: 4, Overtaken: 2, MayOvertake: 10}) {
		t.Errorf("%+v", st)
	}
}

// A successor that wants more than the one before it waits behind all others: a small request keeps no
// place for a large one.
func TestPlaceOfALargerSuccessor(t *testing.T) {
	config := Config{Type: "t", Units: 10}
	set := with(t, config)
	must(t, set, 0, weighs("a", 10), "t-1")
	for i, count := range []int{4, 3, 4} {
		q := merging(fmt.Sprint("latest ", i), Latest, "v")
		q.Weighted, q.Count = true, count
		must(t, set, 1*s, q)
		if i == 0 {
			must(t, set, 1*s, weighs("other", 5))
		}
		want := 1
		if i == 2 {
			want = 2
		}
		if st, _ := set.Status(2*s, q.ID); st.Place != want {
			t.Errorf("a request of %d units has place %d, want %d", count, st.Place, want)
		}
	}
}
