package pool

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
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
	b.ReportMetric(float64(len(set.ended.order)), "ids")
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
