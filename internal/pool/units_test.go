package pool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// counted returns a Set with the counted pool "t".
func counted(t testing.TB, units int) *Set {
	t.Helper()
	return with(t, Config{Type: "t", Units: units})
}

// weighs is a request for units of "t" in one lease.
func weighs(id string, units int) Request {
	return Request{ID: id, Type: "t", Ask: Ask{Count: units, Weighted: true}}
}

func inUse(set *Set, now time.Duration) int { return set.Totals(now)[0].InUse }

func TestCheckUnits(t *testing.T) {
	cost := &Cost{Base: Decimal{5 * billion}}
	for _, c := range []struct {
		config Config
		want   string // empty: valid
	}{
		{Config{Units: 1}, ""},
		{Config{Units: MaxUnits, Unit: "1Mi", Cost: cost, Unknown: 5, Overcommit: 3}, ""},
		{Config{Units: MaxUnits + 1}, "1000000001 units"},
		{Config{Units: -1}, "-1 units"},
		{Config{Units: 1, Names: []string{"n"}}, "names or units"},
		{Config{Units: 8, Cost: cost}, "say how many units a request takes"},
		{Config{Units: 4, Cost: cost, Unknown: 1}, "no items cost 5 units"},
		{Config{Units: 8, Cost: &Cost{RoundTo: -1}, Unknown: 1}, "negative"},
		{Config{Units: 4, Unknown: 5}, "an unknown request takes 5 units"},
		{Config{Units: 4, Overcommit: -1}, "an overcommit of -1"},
		{Config{Names: []string{"n"}, Overcommit: 1}, "for pools that have units"},
		{Config{Names: []string{"n"}, Unit: "1Mi"}, "for pools that have units"},
	} {
		c.config.Type = "t"
		if err := c.config.Check(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: error %v, want %q", c.config, err, c.want)
		}
	}
	if err := (Config{Type: "a/b", Units: 1}).Check(); err == nil {
		t.Error("a type that no name can begin with makes up names")
	}
}

// A listed name that a counted pool may also make up could be held twice.
func TestNamesThatLookMadeUp(t *testing.T) {
	mem := Config{Type: "mem", Units: 8}
	for name, ok := range map[string]bool{"mem-7": false, "mem-007": false, "mem-x": true, "mem-": true, "mem": true, "a-mem-7": true, "mem-7-1": true} {
		_, err := New([]Config{mem, {Type: "t", Names: []string{name}}}, Snapshot{}, PriorityAging)
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), `looks like one of pool "mem"`) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := New([]Config{{Type: "t", Names: []string{"mem-7"}}}, Snapshot{}, PriorityAging); err != nil {
		t.Errorf("without the counted pool: %v", err)
	}
}

// A request that knows units gets one lease of them, any other gets as many leases of one unit
// each.
func TestLeasesOfUnits(t *testing.T) {
	set := counted(t, 10)
	if l := must(t, set, 0, weighs("a", 6), "t-1")[0]; l.Units != 6 {
		t.Errorf("%+v, want 6 units", l)
	}
	for _, l := range must(t, set, 0, Request{ID: "b", Type: "t", Ask: Ask{Count: 3}}, "t-2", "t-3", "t-4") {
		if l.Units != 1 {
			t.Errorf("%+v, want 1 unit", l)
		}
	}
	must(t, set, 0, req("c"), "t-5")
	must(t, set, 0, weighs("d", 1))
	if n := inUse(set, 0); n != 10 {
		t.Errorf("%d in use, want 10", n)
	}
	refuse(t, set, 0, weighs("e", 11), ErrTooMany)
	set.Cancel(0, "b")
	if st, _ := set.Status(0, "d"); st.State != StateGranted || st.Leases[0].Name != "t-6" {
		t.Errorf("%+v, want t-6", st)
	}
}

// Units that the pool computed stay with the request, even if it would now compute others.
func TestUnitsAreFixedAtFirst(t *testing.T) {
	config := Config{Type: "t", Units: 100, Unknown: 7, Cost: &Cost{Base: Decimal{10 * billion}, PerItem: Decimal{billion}}}
	set := with(t, config)
	unknown := Request{ID: "unknown", Type: "t", Ask: Ask{Weighted: true}}
	items := Request{ID: "items", Type: "t", Ask: Ask{Weighted: true, Items: 5, HasItems: true}}
	must(t, set, 0, weighs("x", 99), "t-1")
	must(t, set, 0, unknown)
	must(t, set, 0, items)

	config.Unknown, config.Cost = 50, &Cost{}
	set = restarted(t, set, config)
	must(t, set, 0, unknown)
	must(t, set, 0, items)
	refuse(t, set, 0, Request{ID: "items", Type: "t", Ask: Ask{Weighted: true, Items: 6, HasItems: true}}, ErrConflict)
	refuse(t, set, 0, Request{ID: "items", Type: "t", Ask: Ask{Weighted: true, Count: 15}}, ErrConflict)
	set.Cancel(0, "x")
	for id, want := range map[string]int{"unknown": 7, "items": 15} {
		if st, _ := set.Status(0, id); len(st.Leases) != 1 || st.Leases[0].Units != want {
			t.Errorf("%s: %+v, want %d units", id, st.Leases, want)
		}
	}
	if n, err := set.Units(items); n != 1 || err != nil {
		t.Errorf("today it would be %d, %v", n, err)
	}
	refuse(t, with(t, Config{Type: "t", Units: 9}), 0, items, ErrNoCost)
	refuse(t, one(t, 9), 0, items, ErrNoCost)
}

// A name is not made up again for a long time: not after a restart, nor after its pool was
// removed and put back. At the end the names begin anew, and skip those that are held.
func TestMadeUpNamesDoNotComeBack(t *testing.T) {
	config := Config{Type: "t", Units: 10}
	set := counted(t, 10)
	must(t, set, 0, req("a"), "t-1")
	must(t, set, 0, req("b"), "t-2")
	set.Cancel(0, "a")
	set.Cancel(0, "b")
	restart := func(configs ...Config) {
		t.Helper()
		set = restarted(t, set, configs...)
	}
	restart(config)
	must(t, set, 0, req("c"), "t-3")
	set.Cancel(0, "c")
	restart(Config{Type: "u", Units: 1})
	restart(config)
	must(t, set, 0, req("d"), "t-4")

	for name, want := range map[string]Reason{"t-1": "", "t-4x": Unknown, "u-1": Unknown, "t-": Unknown} {
		if got := set.Release(0, Ref{Name: name}, 0); got != want {
			t.Errorf("release of %s: %q, want %q", name, got, want)
		}
	}
	if _, err := set.Break(0, "t-2", Act{Reason: "drill"}, true); !errors.Is(err, ErrNotHeld) {
		t.Errorf("break of a name that is over: %v", err)
	}

	snap := set.Snapshot()
	snap.Named = []Naming{{Type: "t", Last: lastMadeUp - 1}}
	set, err := New([]Config{config}, snap, PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	must(t, set, 0, Request{ID: "e", Type: "t", Ask: Ask{Count: 5}}, "t-1000000", "t-1", "t-2", "t-3", "t-5")
}

// However many leases a counted pool grants, it remembers few of their names. As long as it
// does, a holder that was cut off hears why its lease is lost.
func TestRecalledNamesAreFew(t *testing.T) {
	set := counted(t, 10)
	old := firm(t, set, 0, "old", "t-1")[0]
	set.Break(0, "t-1", Act{Reason: "drill"}, true)
	for i := range maxRecalled + 5 {
		if _, why := set.Renew(0, ref(old), 0); i < maxRecalled && why != "broken: drill" {
			t.Fatalf("after %d others it is lost because of %q", i, why)
		}
		acquire(t, set, 0, Request{ID: fmt.Sprint("r", i), Type: "t"})
		set.Cancel(0, fmt.Sprint("r", i))
		set.Drain()
	}
	if n := len(set.slots); n > maxRecalled {
		t.Errorf("%d names are recalled", n)
	}
	if _, why := set.Renew(0, ref(old), 0); why != Unknown {
		t.Errorf("the oldest is lost because of %q", why)
	}
}

// In a pool that keeps strict order, a large request is not overtaken by a small one that would
// fit.
func TestLargeIsNotStarved(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 10, Overtake: strictly})
	for i := range 10 {
		must(t, set, 0, weighs(fmt.Sprint("small", i), 1), fmt.Sprint("t-", i+1))
	}
	must(t, set, 0, weighs("large", 8))
	for i := range 8 {
		must(t, set, 0, weighs(fmt.Sprint("late", i), 1))
		if st, _ := set.Status(0, "large"); st.State != StateQueued || i > 0 && st.Reason.String() != "wants 8" {
			t.Fatalf("%+v", st)
		}
		set.Cancel(0, fmt.Sprint("small", i))
	}
	if st, _ := set.Status(0, "large"); st.State != StateGranted {
		t.Errorf("8 units are free, and the large request is %+v", st)
	}
}

// A request that is larger than the limit, but not than the capacity, is granted
// when nothing else is in use: a limit that has fallen blocks no queue for good.
func TestLargerThanTheLimit(t *testing.T) {
	for _, c := range []Config{{Type: "t", Units: 10}, {Type: "t", Names: numbered("t", 10)}} {
		c.Overtake = strictly
		set := with(t, c)
		set.types["t"].limit = limit{capacity: 4}
		must(t, set, 0, req("a"), fmt.Sprint("t-", set.Totals(0)[0].InUse+map[bool]int{true: 1}[c.Units > 0]))
		must(t, set, 0, weighs("large", 9))
		must(t, set, 0, req("b")) // would fit, and comes after large
		if st, _ := set.Status(0, "large"); st.Limit != 4 || st.Capacity != 10 || st.Reason.String() != "wants 9" {
			t.Errorf("%+v", st)
		}
		set.Cancel(0, "a")
		if n := inUse(set, 0); n != 9 {
			t.Errorf("%d in use, want the large one alone", n)
		}
		set.Cancel(0, "large")
		if n := inUse(set, 0); n != 1 {
			t.Errorf("%d in use, want b", n)
		}
	}
}

// Units stay in use, and a key stays held, for as long as the name has a lock delay, also after
// a restart.
func TestLockDelayCoversUnitsAndKey(t *testing.T) {
	config := Config{Type: "t", Units: 10, LockDelay: 15 * s}
	set := with(t, config)
	q := weighs("a", 6)
	q.Key = "k"
	must(t, set, 0, q, "t-1")
	set.Break(0, "t-1", Act{Reason: "drill"}, true)
	set = restarted(t, set, config)
	must(t, set, 1*s, weighs("units", 5))
	other := weighs("key", 1)
	other.Key = "k"
	must(t, set, 1*s, other)
	if p := set.Pools(1 * s)[0]; p.InUse != 6 || p.LockDelayed != 6 || p.Waiters[0].Reason.String() != "lock delay of t-1" || p.Waiters[1].Reason.String() != "lock delay of t-1" {
		t.Errorf("%+v", p)
	}
	set.Advance(15*s - 1)
	set.Drain()
	set.Advance(15 * s)
	changed(t, set, "unlocked t-1", "granted units [t-2]", "granted key [t-3]")
}

// A listed pool that becomes a counted one, and back, grants no name twice.
func TestListedBecomesCounted(t *testing.T) {
	set := one(t, 3)
	must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 2}}, "t-0", "t-1")
	mustReconfigure(t, set, 0, Config{Type: "t", Units: 6})
	must(t, set, 0, Request{ID: "b", Type: "t", Ask: Ask{Count: 2}}, "t-2", "t-3") // t-1 is held
	must(t, set, 0, weighs("c", 2), "t-4")
	must(t, set, 0, req("d"))
	mustReconfigure(t, set, 0, Config{Type: "t", Names: numbered("t", 6)})
	set.Cancel(0, "a")
	if got, want := namesOf(set.Pools(0)[0].Leases), []string{"t-2", "t-3", "t-4", "t-5"}; !slices.Equal(got, want) {
		t.Errorf("%q are held, want %q", got, want)
	}
	if n := inUse(set, 0); n != 5 {
		t.Errorf("%d in use, want 5", n)
	}
}

// A counted pool makes up no more than maxMadeUp names for a request.
func TestTooManyMadeUpNames(t *testing.T) {
	set := counted(t, MaxUnits)
	refuse(t, set, 0, Request{ID: "v1", Type: "t", Ask: Ask{Count: maxMadeUp + 1}}, ErrTooMany)
	must(t, set, 0, weighs("weighs", MaxUnits), "t-1")
}

// A counted pool has no more leases at once than a listed pool may have names, however many units it
// has: a request that would get more waits. A lock delay counts as a lease.
func TestLeasesOfACountedPool(t *testing.T) {
	p := counted(t, MaxUnits).types["t"]
	r := &request{Request: Request{Ask: Ask{Count: 2}}, units: 2, pool: p}
	for free, fits := range map[int]bool{2: true, 1: false, 0: false} {
		p.locks = make([]*lock, MaxCapacity-free)
		if p.fits(r) != fits {
			t.Errorf("with %d leases left, two fit: %t", free, !fits)
		}
	}

	set := counted(t, MaxUnits)
	for i := range MaxCapacity / maxMadeUp {
		leases, err := set.Acquire(0, Request{ID: fmt.Sprint("many", i), Type: "t", Ask: Ask{Count: maxMadeUp}})
		if err != nil || len(leases) != maxMadeUp {
			t.Fatalf("%d leases, %v", len(leases), err)
		}
	}
	must(t, set, 0, weighs("w", 1))
	if st, _ := set.Status(0, "w"); st.Reason.String() != "full" || st.Place != 1 {
		t.Errorf("it waits: %+v", st)
	}
	set.Release(0, Ref{Name: "t-1"}, 0)
	if st, _ := set.Status(0, "w"); st.State != StateGranted {
		t.Errorf("a lease ended: %+v", st)
	}
}
