package pool

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// If there are more ids than can be remembered, the oldest are forgotten, one for each new one.
// A store is told, and a restart does not change it.
func TestEndedIDsAreBounded(t *testing.T) {
	set := one(t, 2)
	if set.ended.limit != MaxEnded {
		t.Fatalf("the limit is %d", set.ended.limit)
	}
	set.ended.limit = 3
	must(t, set, 0, req("granted"), "t-0")
	set.Cancel(0, "granted")
	set.Cancel(0, "a")
	set.Cancel(0, "a") // takes no room again
	set.Cancel(0, "b")
	set.Drain()
	for _, id := range []string{"granted", "a", "b"} {
		refuse(t, set, 1*s, req(id), ErrEnded)
	}
	set.Cancel(1*s, "c")
	changes := set.Drain()
	if len(changes) != 2 || changes[0].Kind != Remembered || changes[1].Kind != Forgotten || changes[1].Ended.ID != "granted" {
		t.Errorf("changes %+v", changes)
	}
	for _, id := range []string{"a", "b", "c"} {
		refuse(t, set, 1*s, req(id), ErrEnded)
	}
	if l := must(t, set, 1*s, req("granted"), "t-1"); !l[0].Provisional {
		t.Errorf("what a late copy got is %+v, and does not come back by itself", l[0])
	}

	back := restarted(t, set, Config{Type: "t", Names: numbered("t", 2)})
	back.ended.limit = 2 // fewer than are there, as after a change of the limit
	back.Cancel(2*s, "d")
	for id, want := range map[string]bool{"a": false, "b": false, "c": true, "d": true} {
		if back.ended.has(id) != want {
			t.Errorf("%s is remembered: %v", id, !want)
		}
	}
}

// What ended ids take is bounded, however long their texts are, and a caller has a quarter of it: it makes the
// server forget nobody else's. Without tokens there is one caller, which has all of it.
func TestBytesOfEndedIDsAreBounded(t *testing.T) {
	set := one(t, 1)
	if set.ended.limitBytes != MaxEndedBytes {
		t.Fatalf("the limit is %d", set.ended.limitBytes)
	}
	long := strings.Repeat("o", 700)
	size := (&tombstone{Ended: Ended{ID: BindID("red", "00"), Lease: EndedLease{Owner: BindOwner("red", long)}}}).size()
	set.ended.limitBytes = 8 * size
	remembered := func() int { return len(set.ended.all()) }
	end := func(caller string, n int) {
		for i := range n {
			q := req(BindID(caller, fmt.Sprintf("%02d", i)))
			q.Owner = BindOwner(caller, long)
			must(t, set, 0, q, "t-0")
			set.Cancel(0, q.ID)
		}
	}
	end("blu", 1)
	end("red", 20)
	if n := remembered(); n != 3 || !set.ended.has(BindID("blu", "00")) || !set.ended.has(BindID("red", "19")) {
		t.Errorf("of one caller and another %d are remembered", n)
	}
	for _, caller := range []string{"c01", "c02", "c03", "c04"} {
		end(caller, 2)
	}
	if n := remembered(); n != 8 || set.ended.has(BindID("red", "19")) {
		t.Errorf("of many callers %d are remembered", n)
	}
	set.Advance(EndedKept)
	if set.ended.bytes != 0 || len(set.ended.of) != 0 || set.ended.count != 0 {
		t.Errorf("%d bytes of %d callers count that are forgotten", set.ended.bytes, len(set.ended.of))
	}
	end("", 20)
	if n := remembered(); n != 8 {
		t.Errorf("without tokens %d are remembered", n)
	}
}

// What all callers cancel before it came is bounded, too: who cancelled most has its oldest forgotten.
func TestUnseenIDsAreBounded(t *testing.T) {
	set := one(t, 1)
	if set.ended.limitAllUnseen != MaxAllUnseen {
		t.Fatalf("the limit is %d", set.ended.limitAllUnseen)
	}
	set.ended.limitAllUnseen = 5
	for _, id := range []string{"many 1", "many 2", "many 3", "many 4", "few 1", "few 2", "other 1"} {
		caller, plain, _ := strings.Cut(id, " ")
		set.Cancel(0, BindID(caller, plain))
	}
	for id, want := range map[string]bool{"many 1": false, "few 1": true, "few 2": true, "other 1": true} {
		caller, plain, _ := strings.Cut(id, " ")
		if set.ended.has(BindID(caller, plain)) != want {
			t.Errorf("%s is remembered: %t", id, !want)
		}
	}
	if set.ended.count != 5 {
		t.Errorf("%d ids are remembered", set.ended.count)
	}
}

// What a caller cancels before it came is bounded for that caller alone, also after a restart: it makes
// the server forget neither the ids of others nor its own requests that it has seen.
func TestUnseenIDsAreBoundedByCaller(t *testing.T) {
	a := func(id string) string { return BindID("a", id) }
	set := one(t, 2)
	if set.ended.limitUnseen != MaxUnseen {
		t.Fatalf("the limit is %d", set.ended.limitUnseen)
	}
	set.ended.limitUnseen = 2
	must(t, set, 0, req(a("seen")), "t-0")
	for _, id := range []string{a("seen"), "1", BindID("b", "1"), a("1"), a("2"), a("3"), a("4")} {
		set.Cancel(0, id)
	}
	mustRemember := func(set *Set, want map[string]bool) {
		t.Helper()
		for id, is := range want {
			if set.ended.has(id) != is {
				t.Errorf("%q is remembered: %t", id, !is)
			}
		}
	}
	mustRemember(set, map[string]bool{a("seen"): true, "1": true, BindID("b", "1"): true, a("1"): false, a("2"): false, a("3"): true, a("4"): true})
	back := restarted(t, set, Config{Type: "t", Names: numbered("t", 2)})
	back.ended.limitUnseen = 1
	back.Cancel(1*s, a("5"))
	mustRemember(back, map[string]bool{a("seen"): true, "1": true, BindID("b", "1"): true, a("3"): false, a("4"): false, a("5"): true})
	back.Advance(EndedKept)
	mustRemember(back, map[string]bool{a("seen"): false, "1": false, a("5"): true})
	back.Advance(EndedKept + 1*s)
	if n := back.ended.count; n != 0 || back.ended.first != nil || back.ended.last != nil || len(back.ended.unseen) != 0 || len(back.ended.ids.first) != 0 {
		t.Errorf("%d ids are left: %+v", n, back.ended)
	}
}

// Requests of several callers may have the same id. Each is found by its own, and all by the plain one.
func TestSameIDOfSeveralCallers(t *testing.T) {
	set := one(t, 1)
	callers := []string{"", "a", "b", CallerID("a", "issuer")}
	for i, caller := range callers {
		q := req(BindID(caller, "same"))
		q.Owner = BindOwner(caller, "job")
		if i == 0 {
			must(t, set, 0, q, "t-0")
		} else {
			must(t, set, 0, q)
		}
	}
	set.Acquire(0, Request{ID: "\x00same", Type: "t", Anonymous: true})
	back := restarted(t, set, Config{Type: "t", Names: numbered("t", 1)})
	for _, set := range []*Set{set, back} {
		if n := len(set.Called(0, "same")); n != len(callers) {
			t.Errorf("%d of %d are found", n, len(callers))
		}
		for _, i := range []int{2, 0, 3, 1} {
			id := BindID(callers[i], "same")
			if !set.Known(0, id) || PlainID(id) != "same" {
				t.Errorf("%q is not known", id)
			}
			set.Cancel(0, id)
			if st, _ := set.Status(0, id); st.State != StateEnded {
				t.Errorf("%q: %+v", id, st)
			}
		}
		all := set.Called(0, "same")
		for _, c := range all {
			if !c.Ended {
				t.Errorf("%+v has not ended", c)
			}
		}
		if len(all) != len(callers) {
			t.Errorf("%+v", all)
		}
	}
}

// A grant that was not confirmed ends with an error of its own, also after a restart; a grant
// that was given back does not.
func TestEndedUnconfirmed(t *testing.T) {
	set := one(t, 2)
	must(t, set, 0, req("unheard"), "t-0")
	must(t, set, 0, req("back"), "t-1")
	set.Cancel(1*s, "back")
	late := ProvisionalTTL + s
	refuse(t, set, late, req("unheard"), ErrUnconfirmed)
	refuse(t, set, late, req("back"), ErrEnded)
	back := restarted(t, set, Config{Type: "t", Names: numbered("t", 2)})
	for id, want := range map[string]bool{"unheard": true, "back": false} {
		if _, err := back.Acquire(late, req(id)); errors.Is(err, ErrUnconfirmed) != want || !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// BenchmarkEnded measures the memory of an ended id, of 32 bytes as our clients send them, when
// as many are remembered as possible.
func BenchmarkEnded(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse)
	}
	set := one(b, 1)
	before := heap()
	n := 0
	for b.Loop() {
		for range MaxEnded {
			n++
			set.Cancel(0, fmt.Sprintf("%032d", n))
			set.Drain()
		}
	}
	b.ReportMetric((heap()-before)/MaxEnded, "B/id")
	b.ReportMetric(float64(set.ended.count), "ids")
}

// Nothing comes between the end of a request and the change that it is remembered, so that a store
// need not divide them: see [Kind.Continues]. A follower takes the place of its leader afterwards.
func TestEndedIsRememberedFirst(t *testing.T) {
	set := one(t, 1)
	set.ended.limit = 1
	must(t, set, 0, req("held"), "t-0")
	set.Cancel(0, "unseen")
	for _, id := range []string{"leader", "follower"} {
		q := req(id)
		q.Key, q.Coalesce = "k", Join
		must(t, set, 0, q)
	}
	set.Drain()
	set.Cancel(0, "leader")
	set.Cancel(0, "held")
	var kinds []Kind
	for _, c := range set.Drain() {
		kinds = append(kinds, c.Kind)
	}
	if want := []Kind{Dropped, Remembered, Forgotten, Queued, Done, Remembered, Forgotten, Granted}; !slices.Equal(kinds, want) {
		t.Errorf("changes %v, want %v", kinds, want)
	}
}
