package pool

import (
	"errors"
	"fmt"
	"maps"
	"testing"
)

// A caller holds and waits for no more than its share, over all pools and owners. Others are not
// concerned, a repeated request is no other one, and a lease that is swapped does not count twice.
func TestShareOfACaller(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 4)}, Config{Type: "u", Names: numbered("u", 1)})
	ask := func(caller, id string, count int) Request {
		return Request{ID: BindID(caller, id), Type: "t", Owner: BindOwner(caller, "of "+id), Ask: Ask{Count: count}, Share: Share{Leases: 4, Waiters: 2}}
	}
	mustRefuse := func(q Request, want ShareError) {
		t.Helper()
		_, err := set.Acquire(0, q)
		if got, ok := errors.AsType[*ShareError](err); !ok || *got != want {
			t.Errorf("%s: %v, want %+v", q.ID, err, want)
		}
	}
	held := must(t, set, 0, ask("x", "a", 2), "t-0", "t-1")
	both := ask("x", "both", 2)
	both.Also = "u"
	mustRefuse(both, ShareError{Leases: true, Have: 2, Asked: 3, Most: 4})
	must(t, set, 0, ask("y", "a", 2), "t-2", "t-3")
	must(t, set, 0, ask("x", "b", 1))
	must(t, set, 0, ask("x", "b", 1))
	must(t, set, 0, ask("x", "c", 1))
	mustRefuse(ask("x", "d", 1), ShareError{Leases: true, Have: 4, Asked: 1, Most: 4})

	swap := ask("x", "swap", 1)
	swap.Owner = BindOwner("x", "of a")
	if _, _, err := set.Reacquire(0, swap, []Ref{ref(held[0])}); !errors.As(err, new(*ShareError)) {
		t.Errorf("a swap, while two wait: %v", err)
	}
	if l, ok := set.Held(0, held[0].Name); !ok || l.Generation != held[0].Generation {
		t.Error("a swap that was refused ended the lease")
	}
	swap.Share.Waiters = 3
	if _, _, err := set.Reacquire(0, swap, []Ref{ref(held[0])}); err != nil {
		t.Errorf("a swap: %v", err)
	}
	if got, want := set.usage["x"], usageOf(set)["x"]; got != want || got.held+got.wanted != 4 {
		t.Errorf("it has %+v, want %+v", got, want)
	}
	try := ask("x", "try", 1)
	try.Try, try.Share.Leases = true, 0
	if _, err := set.Acquire(0, try); !errors.Is(err, ErrExhausted) {
		t.Errorf("what does not wait is no waiter: %v", err)
	}
	for _, id := range []string{"a", "b", "c", "swap"} {
		set.Cancel(0, BindID("x", id))
	}
	acquire(t, set, 0, ask("y", "b", 1))
	set.Cancel(0, BindID("y", "a"))
	set.Cancel(0, BindID("y", "b"))
	if len(set.usage) != 0 {
		t.Errorf("nobody has anything, and yet %+v", set.usage)
	}
}

// usageOf is what callers have, counted anew.
func usageOf(set *Set) map[string]usage {
	all := make(map[string]usage)
	for _, sl := range set.slots {
		if l := sl.lease; l != nil {
			u := all[CallerOf(l.Owner)]
			u.held++
			u.bytes += l.bytes()
			all[CallerOf(l.Owner)] = u
		}
		if l := sl.lock; l != nil {
			u := all[CallerOf(l.owner)]
			u.held++
			all[CallerOf(l.owner)] = u
		}
	}
	for r := range set.requests.all {
		if r.queued() {
			u := all[CallerOf(r.Owner)]
			u.waiting++
			u.wanted += r.wants
			u.bytes += bytesOfWaiter + r.texts()
			all[CallerOf(r.Owner)] = u
		}
	}
	maps.DeleteFunc(all, func(caller string, _ usage) bool { return caller == "" })
	return all
}

// Without a share of its own a caller has as much as one pool has at most, however many pools there are. That is
// so of callers only: without tokens there is none.
func TestShareWithoutBounds(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 2 * MaxCapacity}, Config{Type: "u", Names: numbered("u", 1)}, Config{Type: "v", Names: numbered("v", 1), MaxWaiters: DefaultMaxWaiters + 1})
	ask := func(caller, typ string, count int) Request {
		return Request{ID: BindID(caller, "r-"+typ), Type: typ, Owner: BindOwner(caller, "o"), Ask: Ask{Count: count}}
	}
	for _, caller := range []string{"", "x"} {
		set.use(BindOwner("x", ""), usage{held: MaxCapacity, waiting: DefaultMaxWaiters})
		_, err := set.Acquire(0, ask(caller, "u", 1))
		if refused := errors.As(err, new(*ShareError)); refused != (caller == "x") {
			t.Errorf("one more lease of %q: %v", caller, err)
		}
		if _, err := set.Acquire(0, ask(caller, "v", MaxCapacity+1)); !errors.Is(err, ErrTooMany) {
			t.Errorf("more than a pool has, of %q: %v", caller, err)
		}
		set.use(BindOwner("x", ""), usage{held: -MaxCapacity})
		_, err = set.Acquire(0, ask(caller, "u", 1))
		if refused := errors.As(err, new(*ShareError)); refused != (caller == "x") {
			t.Errorf("one more wait of %q: %v", caller, err)
		}
		set.use(BindOwner("x", ""), usage{waiting: -DefaultMaxWaiters})
	}
	set.use(BindOwner("x", ""), usage{waiting: DefaultMaxWaiters})
	must(t, set, 0, ask("x", "v", 1), "v-0")
	if _, err := set.Acquire(0, Request{ID: BindID("x", "w"), Type: "v", Owner: BindOwner("x", "o")}); err != nil {
		t.Errorf("where more may wait: %v", err)
	}
}

// All callers together have so much memory. When it is used up, each of them has its share of it: one that has less
// goes on, and others are refused, whether they would hold leases or wait.
func TestShareOfMemory(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 100}, Config{Type: "u", Names: numbered("u", 1)})
	set.limitBytes = 10 * bytesOfWaiter
	refused := func(caller, typ string, n int) bool {
		t.Helper()
		_, err := set.Acquire(0, Request{ID: BindID(caller, fmt.Sprint(typ, n)), Type: typ, Owner: BindOwner(caller, "o")})
		share, is := errors.AsType[*ShareError](err)
		if err != nil && !(is && share.Memory) {
			t.Fatalf("%s: %v", caller, err)
		}
		return is
	}
	refused("x", "u", 0) // the others wait
	most := func(caller string) (n int) {
		for !refused(caller, "u", n+1) {
			n++
		}
		return n
	}
	if n := most("x"); n != 9 {
		t.Errorf("alone, %d requests of a caller wait", n)
	}
	if n := most("y"); n != 4 {
		t.Errorf("of a second one %d", n)
	}
	for n := range 2 * bytesOfWaiter / bytesOfLease {
		if refused("y", "t", n) {
			break
		}
		if n > bytesOfWaiter/bytesOfLease {
			t.Fatal("its leases do not count")
		}
	}
	if !refused("x", "t", 0) || refused("", "t", 0) {
		t.Error("want refused who has more than its share, and nobody without a token")
	}
	total := 0
	for _, u := range set.usage {
		total += u.bytes
	}
	if got, want := set.usage["x"], usageOf(set)["x"]; got != want || set.usedBytes != total {
		t.Errorf("it has %+v, want %+v; all %d, want %d", got, want, set.usedBytes, total)
	}
}

// A name under a lock delay counts to the caller whose lease expired: with a share of one it locks one name.
func TestShareWithALockDelay(t *testing.T) {
	set := locking(t, 2)
	ask := func(id string) Request {
		return Request{ID: BindID("x", id), Type: "t", Owner: BindOwner("x", "me"), Share: Share{Leases: 1}}
	}
	must(t, set, 0, ask("a"), "t-0")
	expired := ProvisionalTTL
	if _, is := set.Locked(expired, "t-0"); !is {
		t.Fatal("no lock delay")
	}
	if _, err := set.Acquire(expired, ask("b")); err == nil {
		t.Error("a caller with a share of one may lock two names")
	}
	must(t, set, expired+15*s, ask("c"), "t-1")
	set.Release(expired+15*s, Ref{Name: "t-1"}, 0)
	if len(set.usage) != 0 {
		t.Errorf("nobody has anything, and yet %+v", set.usage)
	}
}

// Of runs that merge one at a time has leases, so they count as one: who joins another, or takes its place, needs
// no more than that one has or waits for.
func TestShareOfRunsThatMerge(t *testing.T) {
	for _, mode := range []Coalesce{Join, Once, Latest} {
		set := with(t, Config{Type: "t", Names: numbered("t", 4)})
		ask := func(id string, count int) Request {
			return Request{ID: BindID("x", id), Type: "t", Owner: BindOwner("x", "of "+id), Share: Share{Leases: 2},
				Ask: Ask{Count: count, Key: "k", Coalesce: mode, Variant: "v"}}
		}
		mustHave := func(held, wanted int) {
			t.Helper()
			if u := set.usage["x"]; u.held != held || u.wanted != wanted || u != usageOf(set)["x"] {
				t.Errorf("%v: %+v, want %d held and %d wanted", mode, u, held, wanted)
			}
		}
		run := must(t, set, 0, ask("run", 1), "t-0")
		must(t, set, 0, ask("a", 1))
		must(t, set, 0, ask("b", 1))
		must(t, set, 0, ask("c", 1))
		wanted := 1
		if mode == Once { // they have joined the run
			wanted = 0
		}
		mustHave(1, wanted)
		if _, err := set.Acquire(0, ask("large", 2+1-wanted)); !errors.As(err, new(*ShareError)) {
			t.Errorf("%v: one that wants more than its share: %v", mode, err)
		}
		set.Cancel(0, BindID("x", "a"))
		mustHave(1, wanted)
		set.Release(0, ref(run[0]), 0)
		mustHave(1, 0)
		for _, id := range []string{"b", "c"} {
			set.Cancel(0, BindID("x", id))
		}
		mustHave(0, 0)
	}
}
