package pool

import (
	"errors"
	"testing"
	"time"
)

// reserve reserves a name for somebody.
func reserve(t *testing.T, set *Set, now time.Duration, name, owner string, d time.Duration) Reserved {
	t.Helper()
	r, err := set.Reserve(now, name, owner, d, Act{By: "ops", Reason: "repair"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A free name that is reserved is granted to nobody, counts as in use, and comes free when it is
// given back.
func TestReserveFreeName(t *testing.T) {
	set := one(t, 2)
	if r := reserve(t, set, 0, "t-0", "alice", 0); r.Type != "t" || r.Holder != "" || r.Reason != "repair" || r.Until != 0 {
		t.Errorf("%+v", r)
	}
	must(t, set, 0, req("a"), "t-1")
	must(t, set, 0, req("b"))
	must(t, set, 0, named("c", "t-0"))
	p := set.Pools(5 * s)[0]
	if p.InUse != 2 || len(p.Reserved) != 1 || p.Reserved[0].Owner != "alice" || p.Waiters[0].Reason.String() != "full" ||
		p.Waiters[1].Reason.String() != "wants t-0, reserved by alice: repair" {
		t.Errorf("%+v", p)
	}
	set.Drain()
	set.Release(6*s, Ref{Name: "t-0", Owner: "bob"}, 0)
	set.Release(6*s, Ref{Name: "t-0"}, 0) // as a client of version 1 does, late
	set.Release(6*s, Ref{Name: "t-0", Generation: 1, Owner: "alice"}, 0)
	changed(t, set)
	set.Release(6*s, Ref{Name: "t-0", Owner: "alice"}, 0)
	changed(t, set, "given back t-0", "granted b [t-0]")
}

// A name that is held is reserved ahead of all waiters, also when its lock delay comes first.
func TestReserveHeldName(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 1), LockDelay: 10 * s})
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, Request{ID: "b", Type: "t", Ask: Ask{Priority: 100}})
	if r := reserve(t, set, 0, "t-0", "alice", 0); r.Holder != "" && r.Holder != "owner of a" {
		t.Errorf("%+v", r)
	}
	set.Drain()
	if _, err := set.Break(1*s, "t-0", Act{Reason: "now"}, true); err != nil {
		t.Fatal(err)
	}
	set.Advance(20 * s)
	if st, _ := set.Status(20*s, "b"); st.State != StateQueued || st.InUse != 1 {
		t.Errorf("%+v", st)
	}
	set.Drain()
	if _, err := set.GiveBack(21*s, "t-0", Act{}); err != nil {
		t.Fatal(err)
	}
	changed(t, set, "given back t-0", "granted b [t-0]")
	if _, err := set.GiveBack(21*s, "t-0", Act{}); !errors.Is(err, ErrNotHeld) {
		t.Errorf("given back twice: %v", err)
	}
}

// A reservation ends by itself after its duration, which a restart neither shortens nor forgets.
func TestReservationEnds(t *testing.T) {
	set := one(t, 1)
	reserve(t, set, 0, "t-0", "alice", 60*s)
	must(t, set, 0, req("a"))
	if st, _ := set.Status(20*s, "a"); st.Estimate != 40*s || st.EstimateMax != 40*s {
		t.Errorf("%+v", st)
	}
	set = restarted(t, set, Config{Type: "t", Names: numbered("t", 1)})
	must(t, set, 20*s, req("a"))
	set.Drain()
	set.Advance(60*s - 1)
	changed(t, set)
	set.Advance(60 * s)
	changed(t, set, "given back t-0", "granted a [t-0]")
}

// Its owner may change a reservation, and nobody else.
func TestReserveAgain(t *testing.T) {
	set := one(t, 1)
	reserve(t, set, 0, "t-0", "alice", 60*s)
	if r, err := set.Reserve(1*s, "t-0", "bob", 0, Act{Reason: "mine"}); !errors.Is(err, ErrReserved) || r.Owner != "alice" {
		t.Errorf("%+v, %v", r, err)
	}
	if r := reserve(t, set, 5*s, "t-0", "alice", 0); r.Since != 0 || r.Until != 0 {
		t.Errorf("%+v", r)
	}
	if _, ok := set.Next(); ok {
		t.Error("something is due")
	}
	set.Release(6*s, Ref{Name: "t-0", Owner: "alice"}, 10*s) // not before then
	if r, ok := set.Reserved(7*s, "t-0"); !ok || r.Until != 16*s {
		t.Errorf("%+v", r)
	}
}

// What was said before the reservation was made does not end it.
func TestLateReleaseOfReservation(t *testing.T) {
	set := one(t, 1)
	wall := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	set.SetWall(wall)
	reserve(t, set, 0, "t-0", "alice", 0)
	if why := set.Release(0, Ref{Name: "t-0", Owner: "alice", KnownAt: wall.Add(-3 * s)}, 0); why != Later {
		t.Errorf("%q", why)
	}
	if why := set.Release(0, Ref{Name: "t-0", Owner: "alice", KnownAt: wall.Add(-1 * s)}, 0); why != "" {
		t.Errorf("%q", why)
	}
}

// A request that wants more names than reservations leave delays nobody, and is granted when there
// are enough again.
func TestReservationDelaysNobody(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, Request{ID: "two", Type: "t", Ask: Ask{Count: 2}})
	reserve(t, set, 0, "t-0", "alice", 0)
	for _, id := range []string{"b", "c", "d", "e"} { // more than may overtake it
		must(t, set, 0, req(id), "t-1")
		set.Cancel(0, id)
	}
	if st, _ := set.Status(0, "two"); st.Reason.String() != "wants 2, 1 of 2 reserved" || st.Overtaken != 0 || st.EstimateMax != 0 {
		t.Errorf("%+v", st)
	}
	set.Cancel(0, "a")
	set.Drain()
	set.GiveBack(0, "t-0", Act{})
	changed(t, set, "given back t-0", "granted two [t-1 t-0]")
}

// Nor does it delay those of its key, whether it was there before the reservation or came after it.
func TestReservationDelaysNobodyOfKey(t *testing.T) {
	set := one(t, 2)
	two := func(id string) Request {
		return Request{ID: id, Type: "t", Ask: Ask{Count: 2, Key: "k"}}
	}
	keyed := func(id string) Request { return Request{ID: id, Type: "t", Ask: Ask{Key: "k"}} }
	must(t, set, 0, keyed("holder"), "t-0")
	must(t, set, 0, two("before"))
	must(t, set, 0, keyed("waits"))
	reserve(t, set, 0, "t-1", "alice", 0)
	must(t, set, 0, two("after"))
	if why := reasonIn(t, set, 0, "t", "before"); why != "wants 2, 1 of 2 reserved" {
		t.Errorf("%q", why)
	}
	set.Cancel(0, "holder")
	if st, _ := set.Status(0, "waits"); st.State != StateGranted {
		t.Fatalf("%+v", st)
	}
	set.Cancel(0, "waits")
	must(t, set, 0, keyed("new"), "t-0")
	set.Cancel(0, "new")
	set.Drain()
	set.GiveBack(0, "t-1", Act{})
	changed(t, set, "given back t-1", "granted before [t-0 t-1]")
	set.Cancel(0, "before")
	if st, _ := set.Status(0, "after"); st.State != StateGranted {
		t.Errorf("%+v", st)
	}
}

// A limit that is no greater than the reservations still lets one lease be held.
func TestReservationsBesideLimit(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 4), Adapt: &Adapt{Floor: 1, Start: 1}})
	reserve(t, set, 0, "t-0", "alice", 0)
	must(t, set, 0, req("a"), "t-1")
	must(t, set, 0, req("b"))
	set.Drain()
	set.Cancel(0, "a")
	changed(t, set, "released t-1", "remembered a", "granted b [t-2]")
}

// A reservation outlives that its name is taken out of the configuration and put back.
func TestReservationOutlivesConfiguration(t *testing.T) {
	set := one(t, 2)
	reserve(t, set, 0, "t-1", "alice", 0)
	set.Drain()
	for i, names := range [][]string{{"t-0"}, {"t-0"}, {"t-0", "t-1"}} {
		if err := set.Reconfigure(0, []Config{{Type: "t", Names: names}}); err != nil {
			t.Fatal(err)
		}
		if p := set.Pools(0)[0]; p.InUse != len(names)-1 || len(p.Reserved) != p.InUse {
			t.Errorf("%+v", p)
		}
		if changes := set.Drain(); (i == 0) != (len(changes) == 1) || i == 0 && (changes[0].Kind != NameReserved || !changes[0].Reserved.NoPool) {
			t.Errorf("changes %q", words(changes))
		}
		if names[len(names)-1] == "t-0" { // a restart says it, too
			if changes := restarted(t, set, of("t", names...)).Drain(); len(changes) != 1 || !changes[0].Reserved.NoPool {
				t.Errorf("changes %q", words(changes))
			}
		}
	}
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"))
}

// Only names of a list can be reserved.
func TestReserveRefused(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 1)}, Config{Type: "c", Units: 9})
	must(t, set, 0, Request{ID: "a", Type: "c"}, "c-1")
	for name, want := range map[string]error{"c-1": ErrMadeUp, "c-7": ErrMadeUp, "nobody": ErrUnknownName} {
		if _, err := set.Reserve(0, name, "alice", 0, Act{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// Names that are only reserved take nothing of a limit that is smaller than the list, and show nothing of
// what the account bears. A lease of a reserved name does.
func TestReservationsTakeNothingOfLimit(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 10), Adapt: &Adapt{Start: 2}})
	must(t, set, 0, req("a"), "t-0")
	reserve(t, set, 0, "t-0", "alice", 0)
	reserve(t, set, 0, "t-8", "alice", 20*s)
	reserve(t, set, 0, "t-9", "alice", 0)
	must(t, set, 0, req("b"), "t-1")
	must(t, set, 0, req("c"))
	p := set.Pools(0)[0]
	if p.InUse != 2 || p.Limit != 2 || p.Lacks != 1 || p.Waiters[0].Reason.String() != "full" || p.Waiters[0].EstimateMax != 0 {
		t.Errorf("%+v", p)
	}
	set.Drain()
	set.Advance(20 * s) // a reservation is over, but two leases are held
	changed(t, set, "given back t-8")
	set.Cancel(21*s, "a")
	changed(t, set, "released t-0", "remembered a", "granted c [t-2]")

	// While one of a limit of two is held, the pool is not in full use, although two names are reserved.
	set.Cancel(21*s, "b")
	for _, id := range []string{"c", "d", "e", "f"} {
		if id != "c" {
			must(t, set, 22*s, req(id), "t-"+map[string]string{"d": "3", "e": "4", "f": "5"}[id])
		}
		if _, err := set.Report(22*s, Report{RequestID: id, Outcome: OutcomeOK}); err != nil {
			t.Fatal(err)
		}
		set.Cancel(22*s, id)
	}
	if p := set.Pools(22 * s)[0]; p.Limit != 2 || p.Tally[0].OK != 4 {
		t.Errorf("%+v", p)
	}
}
