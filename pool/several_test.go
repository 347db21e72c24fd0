package pool

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// pools returns a Set with listed pools a, b and c of as many names.
func pools(t testing.TB, a, b, c int) *Set {
	return with(t, Config{Type: "a", Names: numbered("a", a)}, Config{Type: "b", Names: numbered("b", b)}, Config{Type: "c", Names: numbered("c", c)})
}

// together is a request for leases of those types, as [leaseapi.ParseAlso] reads them.
func together(t testing.TB, id, first string, also ...string) Request {
	t.Helper()
	var others []leaseapi.Also
	for _, text := range also {
		a, err := leaseapi.ParseAlso(text)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, a)
	}
	return Request{ID: id, Type: first, Ask: Ask{Also: JoinAlso(others)}}
}

// reasonIn returns why a request waits, as the list of a pool says it.
func reasonIn(t testing.TB, set *Set, now time.Duration, typ, id string) string {
	t.Helper()
	for _, w := range set.Waiters(now, typ, 0, ListedWaiters) {
		if w.ID == id {
			return w.Reason
		}
	}
	t.Fatalf("%s does not wait for %s", id, typ)
	return ""
}

// All leases come in one grant, in the order of the types, and while one is missing none is held.
func TestSeveralAllOrNone(t *testing.T) {
	set := pools(t, 3, 2, 1)
	must(t, set, 0, together(t, "r1", "a", "c", "b=2"), "a-0", "c-0", "b-0", "b-1")
	must(t, set, 0, together(t, "r2", "a", "b"))
	if st := set.Pools(0)[0]; st.InUse != 1 || st.Waiting != 1 {
		t.Errorf("%+v", st)
	}
	if why := reasonIn(t, set, 0, "a", "r2"); why != "waits for b too: full" {
		t.Errorf("in a: %q", why)
	}
	if why := reasonIn(t, set, 0, "b", "r2"); why != "full" {
		t.Errorf("in b: %q", why)
	}
	if st, _ := set.Status(0, "r2"); st.Place != 1 || st.Reason != "waits for b too: full" {
		t.Errorf("%+v", st)
	}
	set.Release(1*s, Ref{Name: "b-1"}, 0)
	st, _ := set.Status(1*s, "r2")
	if names := namesOf(st.Leases); !slices.Equal(names, []string{"a-1", "b-1"}) {
		t.Errorf("granted %q", names)
	}
	if l := st.Leases[1]; l.AskedType != "a" || l.Type != "b" || l.RequestID != "r2" {
		t.Errorf("%+v", l)
	}
}

// Others go ahead of a request of several pools until the parts of its pools that they got are four;
// from then on nobody does, in none of its pools.
func TestSeveralOvertaken(t *testing.T) {
	set := pools(t, 4, 2, 1)
	must(t, set, 0, together(t, "holder", "c"), "c-0")
	must(t, set, 0, together(t, "r", "a", "b", "c"))
	goes := func(typ string) bool {
		leases, err := set.Acquire(1*s, Request{ID: "x", Type: typ, Anonymous: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			set.Release(1*s, ref(l), 0)
		}
		set.Detach(1*s, "x", 0)
		return len(leases) > 0
	}
	for i := range 12 { // three capacities of a
		if !goes("a") {
			t.Fatalf("request %d for a waits", i)
		}
	}
	for i := range 2 { // one of b
		if !goes("b") {
			t.Fatalf("request %d for b waits", i)
		}
	}
	if o := orderOf(t, set, 1*s, "r"); o.Overtaken != 16 || o.MayOvertake != 16 {
		t.Errorf("%+v", o)
	}
	if goes("a") || goes("b") {
		t.Error("r is overtaken, and was so often enough")
	}
	set.Cancel(2*s, "holder")
	if st, _ := set.Status(2*s, "r"); len(st.Leases) != 3 {
		t.Errorf("%+v", st)
	}
}

// One grant of several pools takes a part in each, and all parts together must be allowed.
func TestSeveralOvertakenByOneOfSeveral(t *testing.T) {
	set := with(t, Config{Type: "a", Units: 10}, Config{Type: "b", Units: 10}, Config{Type: "c", Units: 1})
	must(t, set, 0, Request{ID: "holder", Type: "c"}, "c-1")
	r := together(t, "r", "a", "b", "c")
	r.Weighted = true
	must(t, set, 0, r)
	for i, n := range []int{9, 6} {
		x := together(t, fmt.Sprint("x", i), "a", fmt.Sprint("b=", n))
		x.Count, x.Weighted = n, true
		if leases, err := set.Acquire(0, x); err != nil || len(leases) != 2 {
			t.Fatalf("%d of each: %v, %v", n, leases, err)
		}
		set.Cancel(0, x.ID)
	}
	later := together(t, "later", "a", "b=6")
	later.Count, later.Weighted = 6, true
	must(t, set, 0, later) // 1.2, where 1 is left
	must(t, set, 0, Request{ID: "all of a", Type: "a", Ask: Ask{Count: 10, Weighted: true}}, "a-3")
	set.Cancel(0, "all of a")
	if o := orderOf(t, set, 0, "r"); o.Overtaken != 40 || o.MayOvertake != 40 {
		t.Errorf("%+v", o)
	}
	set.Cancel(0, "holder")
	for _, id := range []string{"r", "later"} {
		if st, _ := set.Status(0, id); st.State != StateGranted {
			t.Errorf("%s: %+v", id, st)
		}
	}
}

// While one pool is paused, or too small, the request is passed over in the others, and not counted as
// overtaken; then it has its place again.
func TestSeveralKeptOut(t *testing.T) {
	set := pools(t, 1, 2, 1)
	must(t, set, 0, together(t, "holder", "a"), "a-0")
	must(t, set, 0, together(t, "r", "a", "b=2"))
	if _, err := set.Pause(0, "b", Act{Reason: "repair"}); err != nil {
		t.Fatal(err)
	}
	if a, b := reasonIn(t, set, 0, "a", "r"), reasonIn(t, set, 0, "b", "r"); a != "waits for b too: paused: repair" || b != "paused: repair" {
		t.Errorf("in a: %q, in b: %q", a, b)
	}
	must(t, set, 0, together(t, "next", "a"))
	set.Cancel(1*s, "holder")
	if st, _ := set.Status(1*s, "next"); st.State != StateGranted {
		t.Errorf("%+v", st)
	}
	if o := orderOf(t, set, 1*s, "r"); o.Overtaken != 0 {
		t.Errorf("%+v", o)
	}
	if _, err := set.Resume(1*s, "b", Act{}); err != nil {
		t.Fatal(err)
	}
	small := []Config{{Type: "a", Names: numbered("a", 1)}, {Type: "b", Names: numbered("b", 1)}}
	if err := set.Reconfigure(2*s, small); err != nil {
		t.Fatal(err)
	}
	if a, b := reasonIn(t, set, 2*s, "a", "r"), reasonIn(t, set, 2*s, "b", "r"); a != "waits for b too: wants 2" || b != "wants 2" {
		t.Errorf("in a: %q, in b: %q", a, b)
	}
	set.Cancel(2*s, "next")
	must(t, set, 2*s, together(t, "again", "a"), "a-0")
	set.Cancel(3*s, "again")
	small[1].Names = numbered("b", 2)
	if err := set.Reconfigure(3*s, small); err != nil {
		t.Fatal(err)
	}
	if st, _ := set.Status(3*s, "r"); st.State != StateGranted {
		t.Errorf("%+v", st)
	}
	if err := set.Reconfigure(4*s, small[:1]); err != nil {
		t.Fatal(err)
	}
	set.Acquire(4*s, together(t, "late", "a"))
	if _, err := set.Acquire(4*s, together(t, "gone", "x", "a", "b", "y")); !errors.Is(err, ErrUnknownType) {
		t.Errorf("%v", err)
	} else if unknown, _ := errors.AsType[*UnknownTypesError](err); unknown == nil || !slices.Equal(unknown.Types, []string{"x", "b", "y"}) {
		t.Errorf("%v", err)
	}
}

// The pace of each pool counts, and that of one delays nobody in the others.
func TestSeveralPaced(t *testing.T) {
	set := with(t, Config{Type: "a", Names: numbered("a", 9)}, Config{Type: "b", Names: numbered("b", 9), Pace: 10 * s})
	must(t, set, 0, together(t, "r1", "a", "b"), "a-0", "b-0")
	must(t, set, 1*s, together(t, "r2", "a", "b"))
	if a, b := reasonIn(t, set, 1*s, "a", "r2"), reasonIn(t, set, 1*s, "b", "r2"); a != "waits for b too: paced" || b != "paced" {
		t.Errorf("in a: %q, in b: %q", a, b)
	}
	must(t, set, 2*s, together(t, "r3", "a"), "a-1")
	nextIs(t, set, 10*s)
	set.Advance(10 * s)
	if st, _ := set.Status(10*s, "r2"); st.State != StateGranted {
		t.Errorf("%+v", st)
	}
}

// A key belongs to the first type: it keeps the request out of its other pools, and other keys of the
// same name do not matter there. Reports are about the first type, too.
func TestSeveralFirstType(t *testing.T) {
	set := pools(t, 2, 2, 2)
	first := keyed("r1", "k")
	first.Type, first.Also = "a", "b"
	must(t, set, 0, first, "a-0", "b-0")
	of2 := keyed("r2", "k")
	of2.Type = "b"
	must(t, set, 0, of2, "b-1")
	waits := keyed("r3", "k")
	waits.Type, waits.Also = "a", "c"
	must(t, set, 0, waits)
	if why := reasonIn(t, set, 0, "c", "r3"); why != "waits for a too: key" {
		t.Errorf("in c: %q", why)
	}
	must(t, set, 0, Request{ID: "r4", Type: "c", Ask: Ask{Count: 2}}, "c-0", "c-1")
	if o := orderOf(t, set, 0, "r3"); o.Overtaken != 0 { // its key keeps it out
		t.Errorf("%+v", o)
	}
	set.Release(1*s, Ref{Name: "a-0"}, 0)
	set.Cancel(1*s, "r4")
	if st, _ := set.Status(1*s, "r3"); st.State != StateGranted {
		t.Errorf("the key is free, and r3 has %+v", st)
	}
	set.Release(2*s, Ref{Name: "b-0"}, 0)
	if counts, err := set.Report(2*s, Report{RequestID: "r1", Outcome: OutcomeOK}); !counts || err != nil {
		t.Errorf("%v, %v", counts, err)
	}
	tallies := fmt.Sprint(set.Pools(2 * s)[0].Tally, set.Pools(2 * s)[1].Tally)
	if tallies != "[{2 1 0}] []" {
		t.Errorf("reported: %s", tallies)
	}
}

// A restart keeps the places of a request of several pools, what overtook it, and which leases are one
// grant.
func TestSeveralRestart(t *testing.T) {
	configs := []Config{{Type: "a", Names: numbered("a", 1)}, {Type: "u", Units: 10, Unknown: 4}}
	set := with(t, configs...)
	first := together(t, "r1", "a", "u")
	must(t, set, 0, first, "a-0", "u-1")
	second := together(t, "r2", "a", "u=3")
	must(t, set, 0, second)
	must(t, set, 0, Request{ID: "small", Type: "u", Ask: Ask{Count: 1, Weighted: true}}, "u-2")
	set.Release(1*s, Ref{Name: "a-0"}, 0) // of r1 only the lease of u is left
	snap := set.Snapshot()
	set, err := New(configs, snap, 0)
	if err != nil {
		t.Fatal(err)
	}
	if leases, err := set.Acquire(1*s, first); err != nil || !slices.Equal(namesOf(leases), []string{"u-1"}) {
		t.Errorf("%+v, %v", leases, err)
	}
	if st, _ := set.Status(1*s, "r2"); st.State != StateGranted || st.Leases[1].Units != 3 {
		t.Errorf("%+v", st)
	}
	if w := snap.Waiters; len(w) != 0 {
		t.Errorf("%+v", w)
	}
	third := together(t, "r3", "a", "u")
	must(t, set, 1*s, third)
	configs[1].Unknown = 1
	must(t, set, 1*s, Request{ID: "small2", Type: "u", Ask: Ask{Count: 2, Weighted: true}}, "u-4")
	before := set.Waiters(1*s, "u", 0, 1)[0].Order
	if set, err = New(configs, set.Snapshot(), 0); err != nil {
		t.Fatal(err)
	}
	if after := set.Waiters(1*s, "u", 0, 1)[0].Order; after != before || after.Overtaken != 2 {
		t.Errorf("%+v, before %+v", after, before)
	}
	set.Acquire(1*s, third)
	set.Cancel(2*s, "r2")
	set.Cancel(2*s, "small2")
	if st, _ := set.Status(2*s, "r3"); len(st.Leases) != 2 || st.Leases[1].Units != 4 {
		t.Errorf("%+v", st)
	}
}

// A request that comes back, and does not wait, makes room for the next of its key in the same call.
// In a pool that only that one wants, somebody has been next all the time: the pace counts from before.
func TestSeveralPaceOverABriefReturn(t *testing.T) {
	set := with(t, Config{Type: "few", Names: numbered("few", 1)}, Config{Type: "units", Units: 10},
		Config{Type: "more", Names: numbered("more", 4), Pace: 10 * s})
	holder := must(t, set, 0, Request{ID: "holder", Type: "few"}, "few-0")
	first, second := together(t, "first", "few", "units"), together(t, "second", "few", "more")
	first.Key, second.Key = "k", "k"
	must(t, set, 0, first)
	must(t, set, 0, second)
	set.Detach(1*s, "first", 0)
	first.Try = true
	refuse(t, set, 20*s, first, ErrExhausted)
	set.Release(21*s, ref(holder[0]), 0)
	set.Acquire(21*s, Request{ID: "next", Type: "more"})
	set.Drain()
	set.Advance(26*s - 1)
	changed(t, set)
	set.Advance(26 * s)
	changed(t, set, "granted next [more-1]")
}
