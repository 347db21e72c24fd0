package pool

import (
	"slices"
	"testing"
	"time"
)

// A lease that nobody can renew is found when nine tenths of its TTL are over, and
// not if it ends as it should.
func TestUnrenewed(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 5), DefaultTTL: 50 * s, V1TTL: 100 * s})
	firm(t, set, 0, "a", "t-0")
	must(t, set, 0, Request{ID: "own", Type: "t", Anonymous: true, TTL: 1000 * s}, "t-1")
	b := must(t, set, 0, req("b"), "t-2")[0]
	set.Renew(0, ref(b), 0)
	firm(t, set, 0, "released late", "t-3")
	set.Release(0, Ref{Name: "t-3"}, 95*s)
	firm(t, set, 0, "broken", "t-4")
	mustBreak(t, set, 0, "t-4", false)
	for _, c := range []struct {
		now  time.Duration
		want []string
	}{{44 * s, nil}, {89 * s, nil}, {90 * s, []string{"t-0"}}, {99 * s, []string{"t-0"}}, {100 * s, nil}, {900 * s, []string{"t-1"}}} {
		if got := namesOf(set.Unrenewed(c.now, 10)); !slices.Equal(got, c.want) {
			t.Errorf("at %v: %q, want %q", c.now, got, c.want)
		}
	}
}

// Lookups by name and by request agree with the pools, and the totals agree with the full
// status.
func TestLookup(t *testing.T) {
	s, err := New([]Config{{Type: "t", Names: []string{"a", "b"}, Pace: time.Second}, {Type: "u", Names: []string{"c"}}}, Snapshot{}, PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"first", "second", "third"} {
		if _, err := s.Acquire(time.Duration(i)*time.Second, Request{ID: id, Type: "t", Owner: "of " + id}); err != nil {
			t.Fatal(err)
		}
	}
	now := 3 * time.Second
	if l, ok := s.Held(now, "b"); !ok || l.RequestID != "second" || l.Owner != "of second" {
		t.Errorf("b is held as %+v, %v", l, ok)
	}
	for _, name := range []string{"c", "never"} {
		if l, ok := s.Held(now, name); ok {
			t.Errorf("%s is held as %+v", name, l)
		}
	}
	for _, id := range []string{"second", "third"} { // granted, queued
		if q, _, ok := s.Request(now, id); !ok || q.Owner != "of "+id {
			t.Errorf("%s is %+v, %v", id, q, ok)
		}
	}
	s.Cancel(now, "third")
	for _, id := range []string{"third", "never"} {
		if q, _, ok := s.Request(now, id); ok {
			t.Errorf("%s is %+v", id, q)
		}
	}
	s.Acquire(now, Request{ID: "fourth", Type: "t"})
	s.Reconfigure(now, []Config{{Type: "t", Names: []string{"a"}}}) // u is gone, b drains
	now += time.Second
	full, totals := s.Pools(now), s.Totals(now)
	if len(full) == 0 || full[0].OldestWaiting != time.Second {
		t.Errorf("pools %+v", full)
	}
	for i := range full {
		full[i].Leases = nil
	}
	if !slices.EqualFunc(full, totals, func(a, b PoolStatus) bool {
		return a.Type == b.Type && a.Capacity == b.Capacity && a.InUse == b.InUse && a.Waiting == b.Waiting &&
			a.OldestWaiting == b.OldestWaiting && a.NextGrantIn == b.NextGrantIn
	}) {
		t.Errorf("totals %+v, want %+v", totals, full)
	}
}

// How large a pool is, and how long its names may become.
func TestExtent(t *testing.T) {
	set := with(t, Config{Type: "listed", Names: []string{"a", "long", "bc"}}, Config{Type: "counted", Units: 7}, Config{Type: "gone", Names: []string{"longer"}})
	must(t, set, 0, Request{ID: "r", Type: "gone"}, "longer")
	mustReconfigure(t, set, 0, Config{Type: "listed", Names: []string{"a", "long", "bc"}}, Config{Type: "counted", Units: 7})
	for typ, want := range map[string][2]int{"listed": {3, 4}, "counted": {7, len("counted-1000000")}, "gone": {}, "none": {}} {
		if capacity, longest := set.Extent(typ, func(name string) int { return len(name) }); [2]int{capacity, longest} != want {
			t.Errorf("%s: %d, %d, want %v", typ, capacity, longest, want)
		}
	}
}
