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
			return w.Reason.String()
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
	if st, _ := set.Status(0, "r2"); st.Place != 1 || st.Reason.String() != "waits for b too: full" {
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

// goes reports whether a request for a type is granted now, to a holder that is gone at once.
func goes(t testing.TB, set *Set, now time.Duration, typ string) bool {
	t.Helper()
	leases, err := set.Acquire(now, Request{ID: "goes", Type: typ, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		set.Release(now, ref(l), 0)
	}
	set.Detach(now, "goes", 0)
	return len(leases) > 0
}

// Others go ahead of a request of several pools until the parts of its pools that they got are four.
// From then on its pools are kept for it one after the other: first the one where least went ahead of it,
// the next only while those before it have room.
func TestSeveralOvertaken(t *testing.T) {
	set := pools(t, 4, 2, 1)
	must(t, set, 0, together(t, "holder", "c"), "c-0")
	must(t, set, 0, together(t, "r", "a", "b=2", "c"))
	for i := range 12 { // three capacities of a
		if !goes(t, set, 1*s, "a") {
			t.Fatalf("request %d for a waits", i)
		}
	}
	for i := range 2 { // one of b
		if !goes(t, set, 1*s, "b") {
			t.Fatalf("request %d for b waits", i)
		}
	}
	if o := orderOf(t, set, 1*s, "r"); o.Overtaken != 16 || o.MayOvertake != 16 {
		t.Errorf("%+v", o)
	}
	if !goes(t, set, 1*s, "a") || !goes(t, set, 1*s, "b") {
		t.Error("c is kept for r, and has no room: others wait for a or b")
	}
	b := must(t, set, 1*s, Request{ID: "holder of b", Type: "b", Ask: Ask{Count: 2}}, "b-1", "b-0")
	set.Cancel(2*s, "holder")
	set.Release(2*s, ref(b[0]), 0)
	for typ, want := range map[string]bool{"a": true, "b": false, "c": false} { // c has room, and now b is kept, too
		if got := goes(t, set, 2*s, typ); got != want {
			t.Errorf("%s: a request is granted: %t", typ, got)
		}
	}
	set.Release(3*s, ref(b[1]), 0)
	if st, _ := set.Status(3*s, "r"); len(st.Leases) != 4 {
		t.Errorf("%+v", st)
	}
}

// A restart keeps which pool is kept first.
func TestSeveralKeptAfterRestart(t *testing.T) {
	set := pools(t, 2, 1, 1)
	must(t, set, 0, together(t, "holder", "b"), "b-0")
	must(t, set, 0, together(t, "r", "a", "b"))
	for range 8 {
		goes(t, set, 1*s, "a")
	}
	set.Drain()
	configs := []Config{{Type: "a", Names: numbered("a", 2)}, {Type: "b", Names: numbered("b", 1)}}
	set, err := New(configs, set.Snapshot(), 0)
	if err != nil {
		t.Fatal(err)
	}
	must(t, set, 1*s, together(t, "r", "a", "b"))
	if o := orderOf(t, set, 1*s, "r"); o.Overtaken != o.MayOvertake {
		t.Errorf("%+v", o)
	}
	if !goes(t, set, 1*s, "a") {
		t.Error("nobody gets a, although b is kept first, and has no room")
	}
}

// However many wait for another pool too, and for however long, those that want this one alone get what
// it has; and the others get theirs when there is room.
func TestSeveralThatWaitElsewhere(t *testing.T) {
	for _, overtake := range []*Decimal{nil, {2 * billion}} {
		set := with(t, Config{Type: "install", Names: numbered("install", 20), Overtake: overtake}, Config{Type: "disk", Names: numbered("disk", 1)})
		disk := must(t, set, 0, Request{ID: "disk", Type: "disk"}, "disk-0")[0]
		set.Renew(0, ref(disk), 1000*hour)
		for i := range 3 * Lookahead {
			must(t, set, 0, together(t, fmt.Sprint("both", i), "install", "disk"))
		}
		for i := range 500 {
			id := fmt.Sprint("install", i)
			if leases, err := set.Acquire(1*s, Request{ID: id, Type: "install"}); err != nil || len(leases) != 1 {
				t.Fatalf("%s: %v, %v", id, leases, err)
			}
			if i >= 19 {
				set.Cancel(1*s, fmt.Sprint("install", i-19))
			}
		}
		set.Release(2*s, ref(disk), 0)
		for i := range 3 * Lookahead {
			if st, _ := set.Status(2*s, fmt.Sprint("both", i)); st.State != StateGranted {
				t.Fatalf("both%d: %+v", i, st)
			}
			set.Cancel(2*s, fmt.Sprint("both", i))
		}
	}
}

// While nobody may overtake anybody in a pool, nobody overtakes a request of several pools there, whatever
// it waits for.
func TestSeveralStrictly(t *testing.T) {
	set := with(t, Config{Type: "a", Names: numbered("a", 2), Overtake: strictly}, Config{Type: "b", Names: numbered("b", 1)})
	must(t, set, 0, together(t, "holder", "b"), "b-0")
	must(t, set, 0, together(t, "r", "a", "b"))
	if goes(t, set, 0, "a") {
		t.Error("r is overtaken")
	}
}

// One grant of several pools takes a part in each.
func TestSeveralOvertakenByOneOfSeveral(t *testing.T) {
	set := with(t, Config{Type: "a", Units: 10}, Config{Type: "b", Units: 10}, Config{Type: "c", Units: 1})
	must(t, set, 0, Request{ID: "holder", Type: "c"}, "c-1")
	r := together(t, "r", "a", "b", "c")
	r.Weighted = true
	must(t, set, 0, r)
	for i, c := range []struct{ units, overtaken int }{{9, 18}, {6, 30}, {6, 40}, {6, 40}} {
		x := together(t, fmt.Sprint("x", i), "a", fmt.Sprint("b=", c.units))
		x.Count, x.Weighted = c.units, true
		if leases, err := set.Acquire(0, x); err != nil || len(leases) != 2 {
			t.Fatalf("%d of each: %v, %v", c.units, leases, err)
		}
		set.Cancel(0, x.ID)
		if o := orderOf(t, set, 0, "r"); o.Overtaken != c.overtaken || o.MayOvertake != 40 {
			t.Errorf("%+v", o)
		}
	}
	set.Cancel(0, "holder")
	if st, _ := set.Status(0, "r"); st.State != StateGranted {
		t.Errorf("%+v", st)
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
	if why := reasonIn(t, set, 0, "c", "r3"); why != "waits for a too: key held by owner of r1" {
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
