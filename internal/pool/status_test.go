package pool

import (
	"slices"
	"testing"
	"time"
)

// Pools returns the state of every pool with its leases and waiters, in the order of
// [Set.Totals].
func (s *Set) Pools(now time.Duration) []PoolStatus {
	all := s.Totals(now)
	for i := range all {
		p := s.types[all[i].Type]
		all[i].Leases = valuesOf(p.byGrant())
		all[i].Waiters = s.waiters(p, 0, ListedWaiters)
	}
	return all
}

func TestStatus(t *testing.T) {
	set := one(t, 2)
	a := must(t, set, 0, req("a"), "t-0")[0]
	must(t, set, 1*s, req("b"), "t-1")
	must(t, set, 2*s, req("c"))
	must(t, set, 2*s, req("d"))
	set.Detach(2*s, "c", 0) // it keeps its place

	st, ok := set.Status(3*s, "d")
	if !ok || st.State != StateQueued || st.Place != 2 || st.Length != 2 || st.InUse != 2 || st.Capacity != 2 {
		t.Errorf("d: %+v", st)
	}
	if st.Oldest == nil || st.Oldest.Name != "t-0" || st.Estimate != 0 {
		t.Errorf("d: oldest %+v, estimate %v", st.Oldest, st.Estimate)
	}
	if st, ok := set.Status(3*s, "a"); !ok || st.State != StateGranted || st.Leases[0] != a {
		t.Errorf("a: %+v", st)
	}
	set.Cancel(4*s, "a")
	if st, ok := set.Status(4*s, "a"); !ok || st.State != StateEnded {
		t.Errorf("a: %+v, %v", st, ok)
	}
	if _, ok := set.Status(4*s, "x"); ok {
		t.Error("x is known")
	}
}

// A pool is full for all waiters if the first one does not fit. A waiter whose key is busy, or
// that is away, is not the first.
func TestLacks(t *testing.T) {
	wants := func(id string, units int, key string) Request {
		r := req(id)
		r.Count, r.Weighted, r.Key = units, true, key
		return r
	}
	set := with(t, Config{Type: "t", Units: 100, Overtake: strictly})
	lacks := func(want int) {
		t.Helper()
		if got := set.Totals(10 * s)[0].Lacks; got != want {
			t.Errorf("lacks %d units, want %d", got, want)
		}
	}
	must(t, set, 1*s, wants("a", 60, "k"), "t-1")
	lacks(0)
	must(t, set, 2*s, wants("same key", 60, "k"))
	lacks(0)
	must(t, set, 3*s, wants("large", 60, ""))
	must(t, set, 3*s, wants("small", 10, ""))
	lacks(20)
	set.Detach(3*s, "large", 0)
	lacks(0) // small has its lease
	if err := set.Reconfigure(4*s, []Config{{Type: "t", Units: 90}}); err != nil {
		t.Fatal(err)
	}
	must(t, set, 4*s, wants("all", 90, ""))
	lacks(70)
}

// The units of the request that takes the turn of an absent one count, not those of the absent.
func TestLacksOfATurn(t *testing.T) {
	wants := func(id string, units int) Request {
		r := merging(id, Join, "v")
		r.Count, r.Weighted = units, true
		return r
	}
	set := with(t, Config{Type: "t", Units: 100})
	other := wants("other", 80)
	other.Key = ""
	other.Coalesce = 0
	l := must(t, set, 1*s, other, "t-1")[0]
	must(t, set, 2*s, wants("away", 30))
	must(t, set, 3*s, wants("joined", 50))
	set.Detach(4*s, "away", 0)
	if _, err := set.Resize(5*s, ref(l), Resizing{From: 80, To: 60}); err != nil {
		t.Fatal(err)
	}
	if p := set.Totals(5 * s)[0]; p.InUse != 60 || p.Following != 1 || p.Lacks != 10 {
		t.Errorf("%d in use, %d joined, lacks %d; want 60, 1, 10", p.InUse, p.Following, p.Lacks)
	}
}

func TestPools(t *testing.T) {
	set := with(t, Config{Type: "z", Names: []string{"z"}, Adapt: &Adapt{Floor: 1}}, Config{Type: "t", Names: numbered("t", 2)})
	must(t, set, 1*s, req("a"), "t-0")
	must(t, set, 2*s, req("b"), "t-1")
	must(t, set, 3*s, req("c"))
	must(t, set, 4*s, req("d"))
	set.Cancel(5*s, "a") // c has t-0 now, and has held it for less time than t-1 is held
	pools := set.Pools(6 * s)
	if len(pools) != 2 || pools[0].Type != "z" || pools[0].InUse != 0 || pools[1].Type != "t" {
		t.Fatalf("pools %+v", pools)
	}
	p := pools[1]
	if !pools[0].Adapt || p.Adapt {
		t.Errorf("pools that adapt: %v, %v", pools[0].Adapt, p.Adapt)
	}
	if p.Capacity != 2 || p.InUse != 2 || p.Waiting != 1 || p.OldestWaiting != 2*s {
		t.Errorf("pool %+v", p)
	}
	if got := namesOf(p.Leases); !slices.Equal(got, []string{"t-1", "t-0"}) {
		t.Errorf("leases %q, want the one held longest first", got)
	}
}

// The oldest waiter is the one that waits longest, also behind others with a higher priority.
func TestOldestWaitingBehindAHigherPriority(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 1*s, req("old"))
	first := req("first")
	first.Priority = 5
	must(t, set, 9*s, first)
	if got := set.Totals(10 * s)[0].OldestWaiting; got != 9*s {
		t.Errorf("the oldest waits for %v, want 9s", got)
	}
}
