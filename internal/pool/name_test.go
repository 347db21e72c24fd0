package pool

import (
	"strings"
	"testing"
)

// named is a request for that name of "t".
func named(id, name string) Request {
	return Request{ID: id, Type: "t", Owner: "owner of " + id, Ask: Ask{Name: name}}
}

// A request for a name gets this name and no other. While it is held, the request waits, in order
// with others that want it, and delays nobody.
func TestNameIsWaitedFor(t *testing.T) {
	set := one(t, 3)
	must(t, set, 0, named("a", "t-1"), "t-1")
	must(t, set, 0, named("b", "t-1"))
	must(t, set, 0, named("c", "t-1"))
	must(t, set, 0, req("d"), "t-0")
	must(t, set, 0, named("e", "t-2"), "t-2")
	must(t, set, 0, req("f"))
	set.Drain()
	set.Cancel(0, "d")
	changed(t, set, "released t-0", "remembered d", "granted f [t-0]")
	w := set.Pools(0)[0].Waiters
	if len(w) != 2 || w[0].Name != "t-1" || w[0].Reason.String() != "wants t-1, held by owner of a" {
		t.Errorf("waiters %+v", w)
	}
	set.Cancel(0, "a")
	changed(t, set, "released t-1", "remembered a", "granted b [t-1]")
	set.Cancel(0, "b")
	changed(t, set, "released t-1", "remembered b", "granted c [t-1]")
	if p := set.types["t"]; p.wantedNames != 0 || set.slots["t-1"].wanted != nil {
		t.Errorf("%d names are remembered as wanted", p.wantedNames)
	}
}

// A request without a name takes what no waiter wants, ahead of it or behind, as long as there is a
// choice.
func TestNameIsKeptIfThereIsAChoice(t *testing.T) {
	set := one(t, 3)
	must(t, set, 0, req("holder"), "t-0")
	must(t, set, 0, named("a", "t-1"), "t-1")
	must(t, set, 0, named("b", "t-1"))
	set.Detach(0, "b", 0)
	set.Cancel(0, "a")
	set.Cancel(0, "holder") // free are t-2, t-1, t-0, and b, which is away, wants t-1
	set.Drain()
	must(t, set, 0, Request{ID: "two", Type: "t", Ask: Ask{Count: 2}}, "t-2", "t-0")
	must(t, set, 0, req("one"), "t-1")
	must(t, set, 0, named("b", "t-1"))
}

// What a request for a name cannot ask for beside it, and where.
func TestNameRefused(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 3)}, Config{Type: "u", Names: []string{"u-0"}}, Config{Type: "c", Units: 9})
	refuse(t, set, 0, named("a", "nobody"), ErrNotInPool)
	refuse(t, set, 0, named("a", "u-0"), ErrNotInPool)
	refuse(t, set, 0, Request{ID: "a", Type: "c", Ask: Ask{Name: "c-1"}}, ErrOneName)
	for _, ask := range []Ask{{Name: "t-1", Count: 2}, {Name: "t-1", Key: "k"}, {Name: "t-1", Coalesce: Join}} {
		refuse(t, set, 0, Request{ID: "a", Type: "t", Ask: ask}, ErrOneName)
	}
	must(t, set, 0, named("a", "t-1"), "t-1")
	refuse(t, set, 0, named("a", "t-2"), ErrConflict)
}

// A waiter whose name is taken out of the configuration is told so.
func TestNameRemovedFromPool(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, named("a", "t-1"), "t-1")
	must(t, set, 0, named("b", "t-1"))
	set.Drain()
	if err := set.Reconfigure(0, []Config{{Type: "t", Names: []string{"t-0"}}}); err != nil {
		t.Fatal(err)
	}
	if c := set.Drain(); len(c) != 1 || c[0].Kind != Dropped || c[0].Err != ErrNotInPool {
		t.Errorf("changes %+v", c)
	}
}

// The name that a waiter wants outlives a restart; also if it is gone then.
func TestNameOutlivesRestart(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, named("a", "t-1"), "t-1")
	must(t, set, 0, named("b", "t-1"))
	gone := restarted(t, set, Config{Type: "t", Names: []string{"t-0"}})
	refuse(t, gone, 0, named("b", "t-1"), ErrNotInPool)
	set = restarted(t, set, Config{Type: "t", Names: numbered("t", 2)})
	must(t, set, 0, named("b", "t-1"))
	set.Drain()
	set.Cancel(0, "a")
	changed(t, set, "released t-1", "remembered a", "granted b [t-1]")
}

// In the place of the lease of a name, the same name is had at once.
func TestNameReacquired(t *testing.T) {
	set := one(t, 2)
	q := named("a", "t-1")
	held := must(t, set, 0, q, "t-1")
	q.ID = "b"
	leases, _, err := set.Reacquire(0, q, []Ref{ref(held[0])})
	if err != nil || len(leases) != 1 || leases[0].Name != "t-1" {
		t.Errorf("%+v, %v", leases, err)
	}
}

// The estimate of a waiter for a name is about the holder of that name.
func TestNameEstimate(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, req("before"), "t-0")
	set.Renew(0, Ref{Name: "t-0"}, 0)
	set.Cancel(100*s, "before") // leases are held for 100 s
	must(t, set, 100*s, named("a", "t-1"), "t-1")
	must(t, set, 110*s, named("b", "t-1"))
	if st, _ := set.Status(120*s, "b"); st.Estimate != 80*s || st.EstimateMax < st.Estimate || !strings.HasPrefix(st.Reason.String(), "wants t-1") {
		t.Errorf("%+v", st)
	}
}
