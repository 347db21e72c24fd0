package pool

import (
	"slices"
	"testing"
	"time"
)

func TestStatus(t *testing.T) {
	set := one(t, 2)
	a := must(t, set, 0, req("a"), "t-0")[0]
	must(t, set, 1*s, req("b"), "t-1")
	must(t, set, 2*s, req("c"))
	must(t, set, 2*s, req("d"))
	set.Detach(2*s, "c", 0) // it keeps its place

	st, ok := set.Status(3*s, "d")
	if !ok || st.State != StateQueued || st.Place != 2 || st.Length != 2 || st.InUse != 2 || st.Capacity != 2 || st.Waited != 1*s {
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

// Two names of which each is held 60 s: the waiter at place 3 is through after
// 90 s, and one at place 4 that wants both after 240 s.
func TestEstimate(t *testing.T) {
	set := one(t, 2)
	for i, id := range []string{"x", "y"} {
		a := must(t, set, 0, req(id), numbered("t", 2)[i])
		set.Renew(0, ref(a[0]), 0)
	}
	set.Cancel(60*s, "x")
	set.Cancel(60*s, "y")
	must(t, set, 60*s, Request{ID: "z", Type: "t", Count: 2}, "t-0", "t-1")
	set.Advance(60*s + ProvisionalTTL) // nobody received z: it says nothing about how long jobs hold
	must(t, set, 100*s, Request{ID: "h", Type: "t", Count: 2}, "t-0", "t-1")
	for _, id := range []string{"a", "b"} {
		must(t, set, 100*s, req(id))
	}
	must(t, set, 100*s, req("c"))
	must(t, set, 100*s, Request{ID: "d", Type: "t", Count: 2})
	if st, _ := set.Status(100*s, "c"); st.Estimate != 90*s {
		t.Errorf("c: estimate %v, want 90s", st.Estimate)
	}
	if st, _ := set.Status(100*s, "d"); st.Estimate != 240*s {
		t.Errorf("d: estimate %v, want 240s", st.Estimate)
	}
}

func TestAverageFollows(t *testing.T) {
	var a average
	a.add(time.Minute)
	for range 40 {
		a.add(time.Hour)
	}
	if a.value < 59*time.Minute || a.value > time.Hour {
		t.Errorf("after 40 values of 1h the average is %v", a.value)
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
