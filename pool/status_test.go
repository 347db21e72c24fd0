package pool

import (
	"slices"
	"testing"
	"time"
)

// Pools returns the state of every pool with its leases and waiters, as [Set.Totals]
// orders them.
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

func TestPools(t *testing.T) {
	set := with(t, Config{Type: "z", Names: []string{"z"}}, Config{Type: "t", Names: numbered("t", 2)})
	must(t, set, 1*s, req("a"), "t-0")
	must(t, set, 2*s, req("b"), "t-1")
	must(t, set, 3*s, req("c"))
	must(t, set, 4*s, req("d"))
	set.Cancel(5*s, "a") // c has t-0 now, and is held shorter than t-1
	pools := set.Pools(6 * s)
	if len(pools) != 2 || pools[0].Type != "z" || pools[0].InUse != 0 || pools[1].Type != "t" {
		t.Fatalf("pools %+v", pools)
	}
	p := pools[1]
	if p.Capacity != 2 || p.InUse != 2 || p.Waiting != 1 || p.OldestWaiting != 2*s {
		t.Errorf("pool %+v", p)
	}
	if got := namesOf(p.Leases); !slices.Equal(got, []string{"t-1", "t-0"}) {
		t.Errorf("leases %q, want the one held longest first", got)
	}
}
