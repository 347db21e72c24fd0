package pool

import (
	"testing"
	"time"
)

func TestFirstComeFirstServed(t *testing.T) {
	set := one(t, 1)
	a := must(t, set, 0, req("a"), "t-0")
	must(t, set, 1*s, req("b"))
	must(t, set, 2*s, req("c"))
	set.Drain()

	set.Release(3*s, ref(a[0]), 0)
	changed(t, set, "released t-0", "remembered a", "granted b [t-0]")
	set.Cancel(4*s, "b")
	changed(t, set, "released t-0", "remembered b", "granted c [t-0]")
}

// In a pool that keeps strict order, a request for many names is not overtaken by requests for few.
func TestLargeRequestBlocksThoseBehind(t *testing.T) {
	set := inOrder(t, 2)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"), "t-1")
	large := req("large")
	large.Count = 2
	must(t, set, 1*s, large)
	must(t, set, 1*s, req("small"))
	set.Drain()

	set.Release(2*s, Ref{Name: "t-0"}, 0)
	changed(t, set, "released t-0", "remembered a")
	must(t, set, 2*s, req("late")) // a name is free, but it is not its turn
	refuse(t, set, 2*s, Request{ID: "try", Type: "t", Try: true}, ErrExhausted)
	set.Release(3*s, Ref{Name: "t-1"}, 0)
	changed(t, set, "released t-1", "remembered b", "granted large [t-0 t-1]")
}

// A waiter whose connection broke keeps its place for a minute and holds up no other waiter.
func TestAbsentWaiterIsSkippedAndKeepsItsPlace(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"))
	must(t, set, 0, req("c"))
	set.Detach(1*s, "b", 0)
	set.Drain()

	set.Release(2*s, Ref{Name: "t-0"}, 0)
	changed(t, set, "released t-0", "remembered a", "granted c [t-0]")
	must(t, set, 3*s, req("d"))
	must(t, set, 30*s, req("b")) // back within its minute, and before d
	if st, _ := set.Status(30*s, "b"); st.Place != 1 {
		t.Fatalf("b is at place %d, want 1", st.Place)
	}
	set.Drain()
	set.Advance(33 * s) // c never confirmed
	changed(t, set, "expired t-0", "remembered c", "granted b [t-0]")
}

func TestAbsentWaiterComesBackToAFreeName(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"))
	set.Detach(0, "b", 0)
	set.Cancel(1*s, "a")
	must(t, set, 2*s, req("b"), "t-0")
}

func TestPlaceIsLostAfterAMinuteAlone(t *testing.T) {
	set := one(t, 1)
	a := must(t, set, 0, req("a"), "t-0")
	set.Renew(0, ref(a[0]), 0)
	must(t, set, 0, req("b"))
	must(t, set, 5*s, req("b")) // a second connection: the retry came before the break of the first was noticed
	set.Detach(10*s, "b", 0)
	set.Drain()
	set.Advance(45 * s)
	changed(t, set) // one is still attached
	set.Detach(50*s, "b", 0)
	set.Advance(110*s - 1)
	changed(t, set)
	set.Advance(110 * s)
	changed(t, set, "dropped b: <nil>")
	must(t, set, 111*s, req("b")) // it was forgotten, and queues again
}

// Between two slices a waiter stays active, and is granted free names.
func TestLingeringWaiterIsThere(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"))
	must(t, set, 0, req("c"))
	set.Detach(1*s, "b", 2*s)
	set.Drain()
	set.Cancel(3*s-1, "a")
	changed(t, set, "released t-0", "remembered a", "granted b [t-0]")
}

// When the two seconds are over, the name that the waiter held up goes to the next waiter.
func TestPresenceEndServesTheNext(t *testing.T) {
	set := inOrder(t, 2)
	must(t, set, 0, req("a"), "t-0")
	large := req("large")
	large.Count = 2
	must(t, set, 0, large)
	must(t, set, 0, req("small"))
	set.Detach(1*s, "large", 2*s)
	set.Drain()
	if next, ok := set.Next(); !ok || next != 3*s {
		t.Fatalf("Next = %v, %v, want the end of the presence at 3s", next, ok)
	}
	set.Advance(3*s - 1)
	changed(t, set)
	set.Advance(3 * s)
	changed(t, set, "granted small [t-1]")
}

// The break of an old connection does not undo the 202 of a newer connection, but the break of
// the newest does.
func TestLingerOfSeveralConnections(t *testing.T) {
	active := func(set *Set) bool {
		set.Drain()
		set.Cancel(set.now, "a")
		return len(set.Drain()) == 3 // released, remembered, granted
	}
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"))
	must(t, set, 0, req("b"))
	set.Detach(1*s, "b", 2*s)
	set.Detach(2*s, "b", 0)
	if !active(set) {
		t.Error("a waiter that got a 202 is not active")
	}

	set = one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"))
	set.Detach(1*s, "b", 2*s)
	must(t, set, 1*s, req("b"))
	set.Detach(2*s, "b", 0)
	if active(set) {
		t.Error("a waiter whose connection broke after its 202 is active")
	}
}

func TestAnonymous(t *testing.T) {
	set := one(t, 1)
	once := func(id string) Request { return Request{ID: id, Type: "t", Anonymous: true} }
	a := must(t, set, 0, once("1"), "t-0")
	if a[0].Provisional || a[0].RequestID != "" || a[0].Expires != DefaultTTL {
		t.Errorf("the grant is not firm: %+v", a[0])
	}
	must(t, set, 0, once("2"))
	must(t, set, 0, once("3"))
	set.Detach(1*s, "2", 2*s)
	set.Drain()
	set.Release(2*s, Ref{Name: "t-0"}, 0)
	changed(t, set, "released t-0", "granted 3 [t-0]")
	if _, ok := set.Status(2*s, "3"); ok {
		t.Error("the id of a request that cannot be repeated is remembered")
	}
}

func TestSameID(t *testing.T) {
	set := one(t, 2)
	q := Request{ID: "a", Type: "t", Ask: Ask{Count: 2}, Owner: "me"}
	first := must(t, set, 0, q, "t-0", "t-1")
	if again := must(t, set, 1*s, q, "t-0", "t-1"); again[0].Generation != first[0].Generation {
		t.Errorf("asked again, generation %d became %d", first[0].Generation, again[0].Generation)
	}
	for _, other := range []Request{
		{ID: "a", Type: "u", Ask: Ask{Count: 2}, Owner: "me"},
		{ID: "a", Type: "t", Ask: Ask{Count: 1}, Owner: "me"},
		{ID: "a", Type: "t", Ask: Ask{Count: 2}, Owner: "you"},
		{ID: "a", Type: "t", Ask: Ask{Count: 2}, Owner: BindOwner("red", "you")},
	} {
		refuse(t, set, 2*s, other, ErrConflict)
	}
	q.Owner = BindOwner("red", "me") // the server now requires tokens
	must(t, set, 2*s, q, "t-0", "t-1")
	set.Release(3*s, ref(first[0]), 0)
	must(t, set, 4*s, q, "t-1") // the rest of the grant
	set.Release(5*s, ref(first[1]), 0)
	refuse(t, set, 6*s, q, ErrEnded)
	refuse(t, set, 5*s+EndedKept-1, q, ErrEnded)
	must(t, set, 5*s+EndedKept, q, "t-0", "t-1")
}

func TestRefused(t *testing.T) {
	set := with(t,
		Config{Type: "t", Names: numbered("t", 2), MaxWaiters: 1},
		Config{Type: "u", Names: numbered("u", 1)})
	refuse(t, set, 0, Request{ID: "a", Type: "v"}, ErrUnknownType)
	refuse(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 3}}, ErrTooMany)
	must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 2}}, "t-0", "t-1")
	must(t, set, 0, req("b"))
	refuse(t, set, 0, req("c"), ErrQueueFull)
	refuse(t, set, 0, Request{ID: "c", Type: "t", Try: true}, ErrExhausted)
	must(t, set, 0, req("b")) // a queued request is not refused
	must(t, set, 0, Request{ID: "c", Type: "u"}, "u-0")
	set.Drain()

	// When its wait is over, a queued request leaves, and its connections are told.
	refuse(t, set, 0, Request{ID: "b", Type: "t", Try: true}, ErrExhausted)
	changed(t, set, "dropped b: no lease was free within the wait")
}

func TestCancel(t *testing.T) {
	set := inOrder(t, 2)
	large := req("large")
	large.Count = 2
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, large)
	must(t, set, 0, req("b"))
	set.Drain()

	if names := set.Cancel(1*s, "large"); names != nil { // it was in the way of b
		t.Errorf("cancelling a waiter released %q", names)
	}
	changed(t, set, "dropped large: the request has ended or was cancelled", "remembered large", "granted b [t-1]")
	set.Cancel(1*s, "unseen")
	set.Cancel(2*s, "unseen")
	changed(t, set, "remembered unseen")
	refuse(t, set, 3*s, req("unseen"), ErrEnded)
	refuse(t, set, 3*s, large, ErrEnded)
	if names := set.Cancel(4*s, "a"); len(names) != 1 || names[0] != "t-0" {
		t.Errorf("cancel of a released %q", names)
	}
}

func TestWithdraw(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"))
	if set.Withdraw(0, "a") || set.Withdraw(0, "unseen") {
		t.Error("withdrew what is not queued")
	}
	if !set.Withdraw(0, "b") {
		t.Error("did not withdraw what is queued")
	}
	must(t, set, 0, req("b")) // its id is not remembered
}

// A request whose answer was lost gets the same grant when it is repeated, for 30 s again.
func TestProvisionalGrantAskedAgain(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	a := must(t, set, 29*s, req("a"), "t-0")
	if a[0].Expires != 59*s {
		t.Errorf("expires at %v, want 59s", a[0].Expires)
	}
	set.Drain()
	set.Advance(59*s - 1)
	changed(t, set)
	set.Advance(59 * s)
	changed(t, set, "expired t-0", "remembered a")
}

// All names are used evenly: the one that is free longest is next.
func TestLongestFreeFirst(t *testing.T) {
	set := one(t, 3)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"), "t-1")
	set.Cancel(1*s, "b")
	set.Cancel(2*s, "a")
	must(t, set, 3*s, req("c"), "t-2")
	must(t, set, 3*s, req("d"), "t-1")
	must(t, set, 3*s, req("e"), "t-0")
}

// A late Advance grants at now, so that the grant is not over before anybody is told of it.
func TestLateAdvanceGrantsAtNow(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 0, req("b"))
	set.Drain()
	set.Advance(time.Hour)
	changes := set.Drain()
	if got := words(changes); len(got) != 3 || got[2] != "granted b [t-0]" {
		t.Fatalf("changes: %q", got)
	}
	if l := changes[2].Leases[0]; l.Granted != time.Hour || l.Expires != time.Hour+ProvisionalTTL {
		t.Errorf("granted at %v until %v", l.Granted, l.Expires)
	}
	if changes[2].Took != time.Hour {
		t.Errorf("waited %v, want 1h", changes[2].Took)
	}
}

func TestTimeDoesNotGoBack(t *testing.T) {
	set := one(t, 1)
	set.Advance(time.Hour)
	if a := must(t, set, 0, req("a"), "t-0"); a[0].Granted != time.Hour {
		t.Errorf("granted at %v, want 1h", a[0].Granted)
	}
}

// An owner agrees with itself under the same token, or if one of the two has no token.
func TestOwnersAgree(t *testing.T) {
	red, blue, none := BindOwner("red", "me"), BindOwner("blue", "me"), "me"
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{red, red, true}, {red, none, true}, {none, red, true}, {none, none, true},
		{red, blue, false}, {red, BindOwner("red", "you"), false}, {red, "you", false}, {none, "you", false},
	} {
		if got := ownersAgree(c.a, c.b); got != c.want {
			t.Errorf("%q and %q agree: %v", c.a, c.b, got)
		}
	}
}
