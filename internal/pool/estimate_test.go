package pool

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// heldBefore returns a Set with the pool "t" of n names whose leases were held for each of
// holds, one after the other, and the time after that.
func heldBefore(t *testing.T, n int, holds ...time.Duration) (*Set, time.Duration) {
	set, now := one(t, n), time.Duration(0)
	for i, hold := range holds {
		id := fmt.Sprint("before", i)
		leases, err := set.Acquire(now, Request{ID: id, Type: "t", Anonymous: true})
		if err != nil {
			t.Fatal(err)
		}
		now += hold
		set.Release(now, ref(leases[0]), 0)
	}
	return set, now
}

func estimates(set *Set, now time.Duration, id string) [2]time.Duration {
	st, _ := set.Status(now, id)
	return [2]time.Duration{st.Estimate, st.EstimateMax}
}

// While one holder holds longer than all before it, the estimate falls from the usual hold to
// "at any moment" and then to "not known", and never rises.
func TestEstimateFalls(t *testing.T) {
	set, start := heldBefore(t, 1, 12*s, 11*s, 12*s, 40*s, 13*s)
	firm(t, set, start, "x", "t-0")
	must(t, set, start, req("w"))
	for _, c := range []struct {
		after time.Duration
		want  [2]time.Duration
	}{
		{0, [2]time.Duration{12 * s, 45 * s}}, // the median; the longest and an eighth
		{5 * s, [2]time.Duration{7 * s, 40 * s}},
		{12 * s, [2]time.Duration{0, 33 * s}},
		{44 * s, [2]time.Duration{0, 1 * s}},
		{45 * s, [2]time.Duration{0, 0}},
		{600 * s, [2]time.Duration{0, 0}},
	} {
		if got := estimates(set, start+c.after, "w"); got != c.want {
			t.Errorf("after %v: %v, want %v", c.after, got, c.want)
		}
	}
}

// Until a lease has ended, the configuration says how long one is usually held. No lease is overdue by that.
func TestEstimateByConfiguration(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 1), Hold: 80 * s})
	firm(t, set, 0, "x", "t-0")
	must(t, set, 0, req("w"))
	if got := estimates(set, 20*s, "w"); got != [2]time.Duration{60 * s, 70 * s} {
		t.Errorf("%v", got)
	}
	if p, _ := set.Pool(20*s, "t", Part{}); p.LongestHold != 0 {
		t.Errorf("a lease is overdue after %v", p.LongestHold)
	}
	set.Release(24*s, Ref{Name: "t-0"}, 0)
	must(t, set, 24*s, req("v"))
	if got := estimates(set, 24*s, "v"); got != [2]time.Duration{24 * s, 27 * s} {
		t.Errorf("after a lease of 24 s: %v", got)
	}
}

// A waiter further behind also waits for the leases of the waiters ahead of it.
func TestEstimateByPlace(t *testing.T) {
	set, start := heldBefore(t, 2, 60*s, 60*s)
	firm(t, set, start, "x", "t-0")
	firm(t, set, start+20*s, "y", "t-1")
	for _, id := range []string{"a", "b", "c"} {
		must(t, set, start+20*s, req(id))
	}
	must(t, set, start+20*s, Request{ID: "d", Type: "t", Ask: Ask{Count: 2}})
	must(t, set, start+20*s, req("e"))
	for _, c := range []struct {
		id   string
		want time.Duration
	}{
		{"a", 40 * s},  // x ends
		{"b", 60 * s},  // y ends
		{"c", 100 * s}, // a ends
		{"d", 160 * s}, // b and c have ended
		{"e", 120 * s}, // b has ended, and d does not fit yet
	} {
		if got := estimates(set, start+20*s, c.id); got[0] != c.want || got[1] < c.want {
			t.Errorf("%s: %v, want %v", c.id, got, c.want)
		}
	}
	for _, w := range set.Pools(start + 20*s)[0].Waiters { // the list says the same
		if got := estimates(set, start+20*s, w.ID); got != [2]time.Duration{w.Estimate, w.EstimateMax} {
			t.Errorf("%s: %v to %v in the list, %v alone", w.ID, w.Estimate, w.EstimateMax, got)
		}
	}
}

// A pending release and the end of a broken lease are known ends, whatever is usual.
func TestEstimateKnownEnds(t *testing.T) {
	set := one(t, 1)
	a := firm(t, set, 0, "x", "t-0")[0]
	must(t, set, 0, req("w"))
	if got := estimates(set, 0, "w"); got != [2]time.Duration{} {
		t.Errorf("nothing is known: %v", got)
	}
	set.Release(1*s, ref(a), 100*s)
	if got := estimates(set, 11*s, "w"); got != [2]time.Duration{90 * s, 90 * s} {
		t.Errorf("a release in 90s: %v", got)
	}

	set = one(t, 1)
	must(t, set, 0, Request{ID: "x", Type: "t", Anonymous: true, TTL: 60 * s}, "t-0")
	must(t, set, 0, req("w"))
	mustBreak(t, set, 10*s, "t-0", false)
	if got := estimates(set, 20*s, "w"); got != [2]time.Duration{0, 40 * s} {
		t.Errorf("a broken lease that ends in 40s at the latest: %v", got)
	}
}

// No estimate grows while nothing happens, until a lease is held longer than all
// before it.
func TestEstimateNeverGrows(t *testing.T) {
	set, start := heldBefore(t, 3, 30*s, 5*s, 90*s, 31*s, 29*s)
	for i, name := range []string{"t-2", "t-0", "t-1"} {
		firm(t, set, start+time.Duration(i)*7*s, fmt.Sprint("x", i), name)
	}
	ids := []string{"a", "b", "c", "d", "e"}
	for _, id := range ids {
		must(t, set, start+20*s, req(id))
	}
	firstEnds := start + 90*s + 90*s/8
	for _, id := range ids {
		last := estimates(set, start+20*s, id)
		for now := start + 20*s; now < firstEnds; now += 100 * time.Millisecond {
			got := estimates(set, now, id)
			if got[0] > last[0] || got[1] > last[1] || got[0] > got[1] || got[1] == 0 {
				t.Fatalf("%s at %v: %v after %v", id, now-start, got, last)
			}
			last = got
		}
	}
}

func TestHistoryFollows(t *testing.T) {
	var h history
	h.add(time.Hour)
	for range historySize {
		h.add(8 * time.Minute)
	}
	if typical, longest := h.spread(); typical != 8*time.Minute || longest != 9*time.Minute {
		t.Errorf("after %d holds of 8m: %v, at most %v", historySize, typical, longest)
	}
}

func TestReasons(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 3), Pace: 10 * s, Overtake: strictly})
	reasons := func(now time.Duration) (all []string) {
		for _, w := range set.Pools(now)[0].Waiters {
			st, _ := set.Status(now, w.ID)
			if st.Reason != w.Reason {
				t.Errorf("%s: %q alone, %q in the list", w.ID, st.Reason, w.Reason)
			}
			all = append(all, fmt.Sprintf("%s %s %v", w.ID, w.Reason, w.Away))
		}
		return all
	}
	firm(t, set, 0, "x", "t-0")
	must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 1}})
	must(t, set, 0, Request{ID: "b", Type: "t", Ask: Ask{Count: 3}})
	must(t, set, 0, req("c"))
	for _, c := range []struct {
		now  time.Duration
		want []string
	}{
		{5 * s, []string{"a paced false", "b paced false", "c paced false"}},
		{10 * s, []string{"b wants 3 false", "c behind false"}},
	} {
		if got := reasons(c.now); !slices.Equal(got, c.want) {
			t.Errorf("at %v: %q, want %q", c.now, got, c.want)
		}
	}
	set.Detach(20*s, "b", 0) // the free name goes to c
	if got, want := reasons(20*s), []string{"b full true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	set.Release(31*s, Ref{Name: "t-0"}, 0)
	if got, want := reasons(31*s), []string{"b wants 3 true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// However many requests wait, a list has the first of them, and says how many there are.
func TestPoolsListFew(t *testing.T) {
	set := one(t, 1)
	firm(t, set, 0, "x", "t-0")
	for i := range ListedWaiters + 5 {
		must(t, set, 0, req(fmt.Sprint(i)))
	}
	p := set.Pools(0)[0]
	if len(p.Waiters) != ListedWaiters || p.Waiting != ListedWaiters+5 || p.Waiters[ListedWaiters-1].ID != fmt.Sprint(ListedWaiters-1) {
		t.Errorf("%d waiters are listed, and %d counted", len(p.Waiters), p.Waiting)
	}
}

// Who fits soon need not wait for those ahead that need more, unless these must not be overtaken by
// so much; and who needs much may have to wait for those behind that need less.
func TestEstimateCountsOvertaking(t *testing.T) {
	set, now := with(t, Config{Type: "t", Units: 10}), time.Duration(0)
	hold := func(id string, units int, d time.Duration) {
		q := weighs(id, units)
		q.Anonymous = true
		l, err := set.Acquire(now, q)
		if err != nil || l == nil {
			t.Fatal(l, err)
		}
		now += d
		set.Release(now, ref(l[0]), 0)
	}
	for i := range 3 {
		hold(fmt.Sprint("before", i), 1, 80*s) // usually 80 s, at the most 90 s
	}
	begin := now
	for _, id := range []string{"a", "b"} {
		l := must(t, set, now, weighs(id, 5), map[string]string{"a": "t-4", "b": "t-5"}[id])
		set.Renew(now, ref(l[0]), 0)
		now += 20 * s
	}
	must(t, set, now, weighs("large", 8))
	must(t, set, now, weighs("small", 3))
	for _, c := range []struct {
		id   string
		want [2]time.Duration
	}{
		{"large", [2]time.Duration{60 * s, 140 * s}}, // b ends; or small goes first, when a ends, and then ends
		{"small", [2]time.Duration{40 * s, 140 * s}}, // a ends; or large goes first
	} {
		if got := estimates(set, begin+40*s, c.id); got != c.want {
			t.Errorf("%s: %v, want %v", c.id, got, c.want)
		}
	}
	// Once nobody may overtake large any more, small waits for it.
	mustReconfigure(t, set, begin+40*s, Config{Type: "t", Units: 10, Overtake: strictly})
	if got, want := estimates(set, begin+40*s, "small"), [2]time.Duration{120 * s, 140 * s}; got[0] < want[0] {
		t.Errorf("small: %v, want at least %v", got, want)
	}
	if got, want := estimates(set, begin+40*s, "large"), [2]time.Duration{60 * s, 70 * s}; got != want {
		t.Errorf("large: %v, want %v", got, want)
	}
}

// A request for more names than reservations without an end leave has no estimate: any would be wrong.
// If one of the reservations ends by itself, it has one.
func TestNoEstimateBesideReservations(t *testing.T) {
	set, start := heldBefore(t, 3, 60*s, 60*s)
	firm(t, set, start, "x", "t-2")
	reserve(t, set, start, "t-1", "alice", 0)
	must(t, set, start, Request{ID: "two", Type: "t", Ask: Ask{Count: 2}})
	must(t, set, start, Request{ID: "three", Type: "t", Ask: Ask{Count: 3}})
	if two, three := estimates(set, start, "two"), estimates(set, start, "three"); two[1] == 0 || three[1] != 0 {
		t.Errorf("%v, %v", two, three)
	}
	reserve(t, set, start, "t-1", "alice", 100*s)
	if three := estimates(set, start, "three"); three[1] == 0 {
		t.Errorf("%v", three)
	}
}
