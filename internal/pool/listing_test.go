package pool

import (
	"fmt"
	"testing"
)

// A part of a pool goes on where another part ended, and says the same of a waiter as the whole
// list does.
func TestPoolParts(t *testing.T) {
	set := one(t, 3)
	for i := range 3 {
		must(t, set, 0, req(fmt.Sprint("h", i)), fmt.Sprint("t-", i))
	}
	set.Renew(0, Ref{Name: "t-1"}, 0)
	set.Cancel(1*s, "h1") // a hold of 1 s is known
	must(t, set, 2*s, req("h3"), "t-1")
	for i := range 5 {
		r := req(fmt.Sprint("w", i))
		r.Count = 1 + i%2
		must(t, set, 3*s, r)
	}
	all := set.Pools(4 * s)[0]
	var leases []Lease
	for after := uint64(0); ; after = leases[len(leases)-1].Generation {
		p, ok := set.Pool(4*s, "t", Part{AfterGeneration: after, Leases: 2})
		if !ok || p.InUse != 3 || p.Waiting != 5 || p.LongestHold < 1*s || len(p.Waiters) > 0 {
			t.Fatalf("%+v", p)
		}
		if len(p.Leases) == 0 {
			break
		}
		leases = append(leases, p.Leases...)
	}
	if fmt.Sprint(leases) != fmt.Sprint(all.Leases) {
		t.Errorf("in parts %v, together %v", leases, all.Leases)
	}
	var waiters []WaiterStatus
	for after := 0; after < 6; after += 2 {
		p, _ := set.Pool(4*s, "t", Part{AfterPlace: after, Waiters: 2})
		waiters = append(waiters, p.Waiters...)
	}
	if fmt.Sprint(waiters) != fmt.Sprint(all.Waiters) || len(waiters) != 5 {
		t.Errorf("in parts %v, together %v", waiters, all.Waiters)
	}
	if _, ok := set.Pool(4*s, "x", Part{}); ok {
		t.Error("there is a pool x")
	}
	if p, _ := set.Pool(4*s, "t", Part{AfterPlace: 99, Waiters: 9}); len(p.Waiters) != 0 {
		t.Errorf("beyond the queue: %v", p.Waiters)
	}
}

// Find looks at all leases and waiters, and finds no more than it is asked for.
func TestFind(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"), "t-1")
	must(t, set, 1*s, req("c"))
	must(t, set, 1*s, req("d"))
	every := func(_, _, _ string) bool { return true }
	found := set.Find(2*s, 9, every)
	if len(found) != 4 || found[0].Lease.Name != "t-0" || found[3].Waiter.ID != "d" || found[3].Waiter.Place != 2 || found[3].Type != "t" {
		t.Errorf("%+v", found)
	}
	if n := len(set.Find(2*s, 3, every)); n != 3 {
		t.Errorf("%d found", n)
	}
	found = set.Find(2*s, 9, func(_, id, name string) bool { return id == "c" || name == "t-1" })
	if len(found) != 2 || found[0].Lease.RequestID != "b" || found[1].Waiter.ID != "c" {
		t.Errorf("%+v", found)
	}
	if r, arrived, ok := set.Request(2*s, "c"); !ok || r.Type != "t" || arrived != 1*s {
		t.Errorf("%+v, %v, %v", r, arrived, ok)
	}
	set.Remove(2*s, "c", Act{Reason: "why not"})
	if st, ok := set.Status(2*s, "c"); !ok || st.Why == nil || st.Why.Error() != "an operator removed the request: why not" {
		t.Errorf("%+v, %v", st, ok)
	}
	if _, _, ok := set.Request(2*s, "c"); ok {
		t.Error("a request that has ended is there")
	}
}

// However a caller asks, [Set.Waiters] lists only the first waiters of a queue.
func TestListedWaiters(t *testing.T) {
	set := with(t, Config{Type: "t", Names: []string{"a"}, MaxWaiters: ListedWaiters + 9})
	for i := range ListedWaiters + 9 {
		acquire(t, set, 0, req(fmt.Sprint("r", i)))
	}
	for _, after := range []int{-5, 0, 4} {
		got := set.Waiters(0, "t", after, 2*ListedWaiters)
		if n := len(got); n != ListedWaiters-max(after, 0) || got[n-1].Place != ListedWaiters {
			t.Errorf("after %d: %d waiters", after, n)
		}
	}
}

// A part of the list says of each waiter what the whole list does.
func TestPartOfWaiters(t *testing.T) {
	set, start := heldBefore(t, 1, 60*s, 60*s)
	firm(t, set, start, "x", "t-0")
	for _, id := range []string{"a", "b", "c"} {
		must(t, set, start, req(id))
	}
	all := set.Waiters(start, "t", 0, ListedWaiters)
	if len(all) != 3 || all[2].Estimate <= all[1].Estimate {
		t.Fatalf("%+v", all)
	}
	for after := range all {
		if got := set.Waiters(start, "t", after, 1); len(got) != 1 || got[0] != all[after] {
			t.Errorf("after %d: %+v, want %+v", after, got, all[after])
		}
	}
}
