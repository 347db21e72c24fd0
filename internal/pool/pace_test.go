package pool

import (
	"math"
	"slices"
	"testing"
	"time"
)

// paced returns a Set with the pool "t" of n names and a pace of 10 s.
func paced(t testing.TB, n int) *Set {
	t.Helper()
	return with(t, Config{Type: "t", Names: numbered("t", n), Pace: 10 * s})
}

// nextIs expects that Advance next has something to do at want. If want is never, it has
// nothing.
func nextIs(t testing.TB, set *Set, want time.Duration) {
	t.Helper()
	if next, ok := set.Next(); ok != (want != nothingDue) || ok && next != want {
		t.Fatalf("Next is %v, %v, want %v", next, ok, want)
	}
}

const nothingDue time.Duration = -1

// firm acquires with a request that gets one name of "t" for good, or queues.
func firm(t testing.TB, set *Set, now time.Duration, id string, names ...string) []Lease {
	t.Helper()
	return must(t, set, now, Request{ID: id, Type: "t", Anonymous: true}, names...)
}

func TestAutoPace(t *testing.T) {
	for _, c := range []struct {
		hold     time.Duration
		capacity int
		want     time.Duration
	}{
		{20 * time.Minute, 50, 24 * s},
		{20 * time.Minute, 1, 20 * time.Minute},
		{10, 3, 3},
		{0, 50, 0},
		{-1, 50, 0},
		{20 * time.Minute, 0, 0},
		{math.MaxInt64, 1, math.MaxInt64},
	} {
		if got := AutoPace(c.hold, c.capacity); got != c.want {
			t.Errorf("AutoPace(%v, %d) = %v, want %v", c.hold, c.capacity, got, c.want)
		}
	}
}

// The first grants of an idle pool are a pace apart like all others.
func TestPaceSpacesGrants(t *testing.T) {
	set := paced(t, 3)
	set.Advance(time.Hour)
	firm(t, set, time.Hour, "a", "t-0")
	firm(t, set, time.Hour, "b")
	firm(t, set, time.Hour, "c")
	refuse(t, set, time.Hour, Request{ID: "d", Type: "t", Try: true}, ErrExhausted)
	set.Drain()

	nextIs(t, set, time.Hour+10*s)
	set.Advance(time.Hour + 10*s - 1)
	changed(t, set)
	set.Advance(time.Hour + 10*s)
	changed(t, set, "granted b [t-1]")
	nextIs(t, set, time.Hour+20*s)
	set.Advance(time.Hour + 20*s)
	changed(t, set, "granted c [t-2]")
}

// A grant of N spends N paces, and is not itself delayed by that.
func TestPaceCountsNames(t *testing.T) {
	set := paced(t, 5)
	must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 3}, Anonymous: true}, "t-0", "t-1", "t-2")
	must(t, set, 1*s, Request{ID: "b", Type: "t", Ask: Ask{Count: 2}, Anonymous: true})
	firm(t, set, 1*s, "c")
	set.Drain()
	set.Advance(30*s - 1)
	changed(t, set)
	set.Advance(30 * s)
	changed(t, set, "granted b [t-3 t-4]")
	if p := set.Pools(35 * s)[0]; p.NextGrantIn != 15*s {
		t.Errorf("next grant in %v, want 15s", p.NextGrantIn)
	}
	set.Release(55*s, Ref{Name: "t-1"}, 0)
	changed(t, set, "released t-1", "granted c [t-1]")
}

// A grant that is late by up to half a pace does not delay later grants.
func TestPaceKeepsDueTimes(t *testing.T) {
	for _, c := range []struct {
		name       string
		late, next time.Duration // of the grants that were due at 10 s and then
	}{
		{"in time", 0, 20 * s},
		{"a little", 3 * s, 20 * s},
		{"half a pace", 5 * s, 20 * s},
		{"more", 8 * s, 23 * s},
		{"far too late", time.Hour, time.Hour + 15*s},
	} {
		t.Run("timer/"+c.name, func(t *testing.T) {
			set := paced(t, 5)
			firm(t, set, 0, "a", "t-0")
			firm(t, set, 0, "b")
			firm(t, set, 0, "c")
			set.Drain()
			set.Advance(10*s + c.late)
			changed(t, set, "granted b [t-1]") // one only, however late
			nextIs(t, set, c.next)
		})
		t.Run("nothing free/"+c.name, func(t *testing.T) {
			set := with(t, Config{Type: "t", Names: numbered("t", 2), Pace: 10 * s, Overtake: strictly})
			must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 1}, Anonymous: true}, "t-0")
			must(t, set, 0, Request{ID: "b", Type: "t", Ask: Ask{Count: 2}, Anonymous: true})
			nextIs(t, set, DefaultTTL) // it is delayed by the pace as well, which does not matter
			firm(t, set, 0, "c")
			firm(t, set, 10*s+c.late, "d") // more waiters do not make b less late
			set.Drain()
			set.Release(10*s+c.late, Ref{Name: "t-0"}, 0)
			changed(t, set, "released t-0", "granted b [t-1 t-0]")
			set.Release(10*s+c.late, Ref{Name: "t-0"}, 0)
			changed(t, set, "released t-0")
			nextIs(t, set, c.next+10*s) // b took two
		})
	}
}

// An idle pool saves up nothing, nor does a pool whose waiters are away.
func TestPaceSavesNothing(t *testing.T) {
	set := paced(t, 4)
	firm(t, set, 0, "a", "t-0")
	firm(t, set, time.Hour, "b", "t-1")
	must(t, set, time.Hour, req("c"))
	nextIs(t, set, time.Hour+10*s)
	set.Detach(time.Hour+1*s, "c", 0)
	nextIs(t, set, time.Hour+61*s) // the end of its place; no active waiter is delayed
	set.Advance(time.Hour + 14*s)
	must(t, set, time.Hour+14*s, req("c"), "t-2")
	must(t, set, time.Hour+14*s, req("d"))
	set.Drain()
	set.Advance(time.Hour + 24*s - 1)
	changed(t, set)
	set.Advance(time.Hour + 24*s)
	changed(t, set, "granted d [t-3]")
}

// Next has a due time only as long as a waiter waits only for the pace.
func TestPaceTimerGoesWithTheWaiter(t *testing.T) {
	set := paced(t, 2)
	firm(t, set, 0, "a", "t-0")
	firm(t, set, 1*s, "b")
	nextIs(t, set, 10*s)
	set.Withdraw(2*s, "b")
	nextIs(t, set, DefaultTTL)
	firm(t, set, 3*s, "c")
	must(t, set, 3*s, Request{ID: "two", Type: "t", Ask: Ask{Count: 2}})
	nextIs(t, set, 10*s)
	set.Withdraw(4*s, "c") // and a waiter for two names is next
	nextIs(t, set, DefaultTTL)
	set.Release(5*s, Ref{Name: "t-0"}, 0)
	nextIs(t, set, 10*s)
}

// A restart does not start the pace anew.
func TestPaceOutlivesRestart(t *testing.T) {
	config := Config{Type: "t", Names: numbered("t", 6), Pace: 10 * s}
	set := with(t, config)
	firm(t, set, 1*s, "a", "t-0")
	must(t, set, 11*s, Request{ID: "b", Type: "t", Ask: Ask{Count: 3}, Anonymous: true}, "t-1", "t-2", "t-3")
	set.Release(12*s, Ref{Name: "t-2"}, 0)
	back := restarted(t, set, config)
	firm(t, back, 13*s, "c")
	nextIs(t, back, 41*s)

	// A clock that was saved before the lease does not stop the pool.
	snap := Snapshot{Clock: 5 * s, Leases: []Lease{{Name: "t-0", Type: "t", Generation: 1, Units: 1, TTL: hour, Granted: 3 * hour}}}
	back, err := New([]Config{config}, snap, PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	firm(t, back, 5*s, "c")
	nextIs(t, back, 15*s)
}

// The longest possible pace grants once, and does not overflow.
func TestPaceWithoutEnd(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 9), Pace: math.MaxInt64})
	must(t, set, hour, Request{ID: "a", Type: "t", Ask: Ask{Count: 7}, Anonymous: true}, numbered("t", 7)...)
	firm(t, set, 2*hour, "b")
	set.Release(2*hour, Ref{Name: "t-0"}, math.MaxInt64)
	set.Drain()
	for i := range 6 {
		set.Release(2*hour, Ref{Name: numbered("t", 7)[i]}, 0)
	}
	if _, waiting := set.Busy(); waiting != 1 {
		t.Error("a waiter was granted before its time")
	}
	if st, ok := set.Status(2*hour, "b"); !ok || st.Estimate <= 0 {
		t.Errorf("status %+v", st)
	}
	if in := set.Totals(2 * hour)[0].NextGrantIn; in < 1e6*hour {
		t.Errorf("next grant in %v", in)
	}
}

// The estimate is when the pace allows the grant, if there are enough names; and when enough
// names are free, if that is later.
func TestPaceEstimate(t *testing.T) {
	set := paced(t, 4)
	firm(t, set, 0, "x", "t-0")
	set.Release(100*s, Ref{Name: "t-0"}, 0) // a hold of 100 s
	firm(t, set, 100*s, "a", "t-1")
	for _, id := range []string{"b", "c", "d", "e", "f"} {
		must(t, set, 100*s, req(id))
	}
	for _, c := range []struct {
		id   string
		want time.Duration
	}{
		{"b", 8 * s},
		{"c", 18 * s},
		{"d", 28 * s},
		{"e", 98 * s},  // when a ends, rather than the 38 s after which the pace would allow it
		{"f", 100 * s}, // when the next of b, c and d ends
	} {
		st, _ := set.Status(102*s, c.id)
		if st.Estimate != c.want {
			t.Errorf("%s: estimate %v, want %v", c.id, st.Estimate, c.want)
		}
	}
	if in := set.Totals(102 * s)[0].NextGrantIn; in != 8*s {
		t.Errorf("next grant in %v, want 8s", in)
	}

	// It is not known how long jobs hold.
	set = paced(t, 1)
	firm(t, set, 0, "a", "t-0")
	must(t, set, 0, req("b"))
	if st, _ := set.Status(0, "b"); st.Estimate != 0 {
		t.Errorf("estimate %v, want none", st.Estimate)
	}
}

// A pool that is removed and has no lease leaves no pace in a store.
func TestPaceOfAPoolThatIsGone(t *testing.T) {
	set := paced(t, 1)
	firm(t, set, 0, "a", "t-0")
	set.Release(1*s, Ref{Name: "t-0"}, 0)
	set.Drain()
	mustReconfigure(t, set, 2*s, of("u", "u-0"))
	var paces []Pacing
	for _, c := range set.Drain() {
		if c.Kind == Paced {
			paces = append(paces, *c.Pacing)
		}
	}
	if want := []Pacing{{Type: "t"}}; !slices.Equal(paces, want) {
		t.Errorf("paces %+v, want %+v", paces, want)
	}
	if snap := set.Snapshot(); len(snap.Paced) > 0 {
		t.Errorf("the snapshot has %+v", snap.Paced)
	}
}
