package pool

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// keyed is a request for one name of "t" under a key.
func keyed(id, key string) Request {
	return Request{ID: id, Type: "t", Owner: "owner of " + id, Ask: Ask{Key: key}}
}

// In a pool, one request holds a key at a time, and others wait for the key in order.
func TestKeyExcludes(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 9)}, Config{Type: "u", Names: numbered("u", 9)})
	must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Key: "k", Count: 2}}, "t-0", "t-1")
	must(t, set, 0, keyed("b", "k"))
	must(t, set, 0, keyed("c", "k"))
	must(t, set, 0, keyed("d", "l"), "t-2")
	must(t, set, 0, Request{ID: "e", Type: "u", Ask: Ask{Key: "k"}}, "u-0") // a key of another pool
	set.Drain()
	set.Release(0, Ref{Name: "t-0"}, 0)
	changed(t, set, "released t-0")
	set.Release(0, Ref{Name: "t-1"}, 0)
	changed(t, set, "released t-1", "remembered a", "granted b [t-3]")
	set.Cancel(0, "b")
	changed(t, set, "released t-3", "remembered b", "granted c [t-4]")
	if k := set.types["t"].keys; len(k) != 2 {
		t.Errorf("keys %v are remembered", k)
	}
}

// A request whose key is busy does not delay other grants.
func TestBlockedKeyDelaysNobody(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, keyed("a", "k"), "t-0")
	for i := range 5 {
		must(t, set, 0, keyed(fmt.Sprint("blocked", i), "k"))
	}
	for i := range 5 {
		id := fmt.Sprint("other", i)
		waits := fmt.Sprint("waits", i)
		must(t, set, 0, keyed(id, id), "t-1")
		must(t, set, 0, req(waits))
		set.Drain()
		set.Cancel(0, id)
		changed(t, set, "released t-1", "remembered "+id, "granted "+waits+" [t-1]")
		set.Cancel(0, waits)
	}
}

// The list says who holds the key that a request waits for, and so does the refusal of a
// request that does not wait.
func TestKeyHolderIsTold(t *testing.T) {
	set := one(t, 3)
	must(t, set, 0, Request{ID: "a", Type: "t", Owner: "me", Ask: Ask{Key: "k", Count: 2}}, "t-0", "t-1")
	must(t, set, 0, keyed("b", "k"))
	set.Release(0, Ref{Name: "t-1"}, 0)
	w := set.Pools(0)[0].Waiters[0]
	if w.Key != "k" || w.Reason.String() != "key held by me" {
		t.Errorf("%+v", w)
	}
	st, _ := set.Status(0, "b")
	if st.Key != "k" || st.Reason.String() != "key held by me" {
		t.Errorf("%+v", st)
	}
	q := keyed("c", "k")
	q.Try = true
	if st := exhausted(t, set, 0, q); st.Reason.String() != "key held by me" || st.Place != 2 {
		t.Errorf("%+v", st)
	}
}

// A key outlives a restart, with its holder and its waiters.
func TestKeyOutlivesRestart(t *testing.T) {
	set := one(t, 2)
	firmly := keyed("a", "k")
	must(t, set, 0, firmly, "t-0")
	must(t, set, 0, keyed("b", "k"))
	set = restarted(t, set, Config{Type: "t", Names: numbered("t", 2)})
	must(t, set, 0, keyed("b", "k"))
	must(t, set, 0, firmly, "t-0")
	refuse(t, set, 0, keyed("a", "l"), ErrConflict)
	must(t, set, 0, req("c"), "t-1")
	set.Drain()
	set.Cancel(0, "a")
	changed(t, set, "released t-0", "remembered a", "granted b [t-0]")
}

// A waiter that is away does not block others, even of its own key.
func TestAbsentWaiterOfKey(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, keyed("a", "k"), "t-0")
	must(t, set, 0, keyed("b", "k"))
	must(t, set, 0, keyed("c", "k"))
	set.Detach(0, "b", 0)
	set.Cancel(0, "a")
	set.Drain()
	must(t, set, 0, keyed("b", "k"))
	if st, _ := set.Status(0, "c"); st.State != StateGranted {
		t.Errorf("c is %+v", st)
	}
}

// exhausted tries q, and returns where it would stand if it waited.
func exhausted(t testing.TB, set *Set, now time.Duration, q Request) Status {
	t.Helper()
	q.Try = true
	_, err := set.Acquire(now, q)
	e, ok := err.(*ExhaustedError)
	if !ok {
		t.Fatalf("%s: error %v, want that it is exhausted", q.ID, err)
	}
	return e.Status
}

// A refusal leaves nothing behind. It says how much is in use, the place that the request would
// have had, who holds longest, and when to try again.
func TestRefusalTells(t *testing.T) {
	set, start := heldBefore(t, 2, 60*s)
	firm(t, set, start, "x", "t-1")
	firm(t, set, start+20*s, "y", "t-0")
	must(t, set, start+20*s, req("w"))
	set.Drain()
	st := exhausted(t, set, start+30*s, Request{ID: "z", Type: "t", Ask: Ask{Count: 2}})
	if st.InUse != 2 || st.Limit != 2 || st.Capacity != 2 || st.Place != 2 || st.Length != 2 || st.Units != 2 ||
		st.Oldest == nil || st.Oldest.Name != "t-1" || st.Estimate != 90*s || st.Reason.String() != "full" {
		t.Errorf("%+v", st)
	}
	if _, known := set.Status(start+30*s, "z"); known || len(set.Drain()) > 0 {
		t.Error("a request that was refused left something behind")
	}
	set.Pause(start+30*s, "t", Act{Reason: "drill"})
	if st := exhausted(t, set, start+30*s, req("z")); st.Reason.String() != "paused: drill" || st.EstimateMax != 0 {
		t.Errorf("%+v", st)
	}
}

// The estimates of other waiters leave out a waiter whose key is busy. That waiter itself waits
// for the holder of the key.
func TestEstimateWithKeys(t *testing.T) {
	set, start := heldBefore(t, 2, 60*s, 60*s)
	q := keyed("x", "k")
	name := "t-0"
	set.Renew(start, ref(must(t, set, start, q, name)[0]), 0)
	firm(t, set, start+20*s, "y", "t-1")
	now := start + 20*s
	must(t, set, now, keyed("blocked", "k"))
	must(t, set, now, keyed("blocked too", "k"))
	must(t, set, now, req("free"))
	longest := 47500 * time.Millisecond // 20 s less than the longest hold and an eighth
	for id, want := range map[string][2]time.Duration{"blocked": {40 * s, longest}, "blocked too": {}, "free": {40 * s, longest}} {
		if got := estimates(set, now, id); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	var listed []string
	for _, w := range set.Pools(now)[0].Waiters {
		listed = append(listed, fmt.Sprint(w.ID, " ", w.Estimate, " ", w.Reason))
	}
	if want := []string{"blocked 40s key held by owner of x", "blocked too 0s key held by owner of x", "free 40s full"}; !slices.Equal(listed, want) {
		t.Errorf("%q, want %q", listed, want)
	}
}

// A pool forgets a key that nobody holds or waits for, however that came.
func TestKeysAreForgotten(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, keyed("a", "k"), "t-0")
	must(t, set, 0, keyed("b", "k"))
	must(t, set, 0, keyed("c", "other"))
	set.Cancel(1*s, "c")
	set.Cancel(2*s, "a")
	set.Cancel(3*s, "b")
	if left := set.types["t"].keys; len(left) > 0 {
		t.Errorf("the pool knows keys %v", slices.Collect(maps.Keys(left)))
	}
}

// reading is a request for one name of "t" under a key that it reads.
func reading(id, key string) Request {
	q := keyed(id, key)
	q.ReadsKey = true
	return q
}

// Readers of a key hold it together, and a writer alone. A reader waits behind a writer that waits
// ahead of it: so writers get their turn, however many readers come.
func TestReadersAndWriters(t *testing.T) {
	set := one(t, 9)
	must(t, set, 0, reading("r1", "k"), "t-0")
	must(t, set, 0, reading("r2", "k"), "t-1")
	must(t, set, 0, keyed("w", "k"))
	must(t, set, 0, reading("r3", "k"))
	must(t, set, 0, keyed("w2", "k"))
	must(t, set, 0, reading("r4", "k"))
	must(t, set, 0, keyed("other", "l"), "t-2") // which they do not delay
	var told []string
	for _, w := range set.Pools(0)[0].Waiters {
		told = append(told, fmt.Sprintf("%s: %s", w.ID, w.Reason))
	}
	if want := []string{"w: key held by owner of r1", "r3: behind a writer", "w2: key held by owner of r1", "r4: behind a writer"}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
	set.Drain()
	set.Cancel(0, "r1")
	changed(t, set, "released t-0", "remembered r1")
	set.Cancel(0, "r2")
	changed(t, set, "released t-1", "remembered r2", "granted w [t-3]")
	set.Cancel(0, "w")
	changed(t, set, "released t-3", "remembered w", "granted r3 [t-4]")
	set.Remove(0, "w2", Act{Reason: "why"})
	changed(t, set, "dropped w2: an operator removed the request: why", "remembered w2", "granted r4 [t-5]")
	if k := set.types["t"].keys["k"]; k.holds != 2 || !k.read {
		t.Errorf("key %+v", k)
	}
}

// A reader ahead of a writer that does not fit goes first, and so do other readers ahead of it.
func TestReadersAreOffered(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, keyed("a", "k"), "t-0")
	must(t, set, 0, req("b"), "t-1")
	for i := range 3 {
		must(t, set, 0, reading(fmt.Sprint("r", i), "k"))
	}
	must(t, set, 0, keyed("w", "k"))
	set.Drain()
	set.Cancel(0, "a")
	changed(t, set, "released t-0", "remembered a", "granted r0 [t-0]")
	set.Cancel(0, "b")
	changed(t, set, "released t-1", "remembered b", "granted r1 [t-1]")
	set.Cancel(0, "r0")
	changed(t, set, "released t-0", "remembered r0", "granted r2 [t-0]")
	set.Cancel(0, "r1")
	changed(t, set, "released t-1", "remembered r1")
	set.Cancel(0, "r2")
	changed(t, set, "released t-0", "remembered r2", "granted w [t-1]")
}

// After a reader that was lost the lock delay keeps writers out, and no readers; after a writer it
// keeps out everybody. A restart changes nothing of that.
func TestLockDelayOfReaders(t *testing.T) {
	for _, c := range []struct {
		lost    Request
		readers bool // get the key during the lock delay
	}{{reading("lost", "k"), true}, {keyed("lost", "k"), false}} {
		config := Config{Type: "t", Names: numbered("t", 9), LockDelay: 60 * s}
		set := with(t, config)
		must(t, set, 0, c.lost, "t-0")
		set.Advance(ProvisionalTTL)
		set = restarted(t, set, config)
		now := ProvisionalTTL
		if _, err := set.Acquire(now, reading("r", "k")); err != nil {
			t.Fatal(err)
		}
		if st, _ := set.Status(now, "r"); (st.State == StateGranted) != c.readers {
			t.Errorf("after %+v a reader is %+v", c.lost, st)
		}
		set.Cancel(now, "r")
		must(t, set, now, keyed("w", "k"))
		if st, _ := set.Status(now, "w"); st.Reason.String() != "lock delay of t-0" || st.EstimateMax != 60*s {
			t.Errorf("after %+v a writer is %+v", c.lost, st)
		}
		set.Advance(now + 60*s)
		if st, _ := set.Status(now+60*s, "w"); st.State != StateGranted {
			t.Errorf("after the lock delay a writer is %+v", st)
		}
	}
}

// A writer waits for the last of the readers that hold its key; how long those behind it
// wait, nobody knows.
func TestEstimateOfWriter(t *testing.T) {
	set, start := heldBefore(t, 3, 60*s, 60*s)
	firmReader := func(now time.Duration, id, name string) {
		set.Renew(now, ref(must(t, set, now, reading(id, "k"), name)[0]), 0)
	}
	firmReader(start, "r1", "t-2")
	firmReader(start+20*s, "r2", "t-0")
	now := start + 30*s
	must(t, set, now, keyed("w", "k"))
	must(t, set, now, reading("r3", "k"))
	if got := estimates(set, now, "w"); got[0] != 50*s {
		t.Errorf("the writer: %v", got)
	}
	if got := estimates(set, now, "r3"); got[1] != 0 {
		t.Errorf("the reader behind it: %v", got)
	}
}
