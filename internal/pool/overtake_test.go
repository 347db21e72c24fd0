package pool

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// orderOf returns where the order puts a waiter.
func orderOf(t testing.TB, set *Set, now time.Duration, id string) Order {
	t.Helper()
	st, ok := set.Status(now, id)
	if !ok || st.State != StateQueued {
		t.Fatalf("%s does not wait: %+v", id, st)
	}
	return st.Order
}

// Those that fit go ahead of one that does not, until as many units as the pool has went ahead of it.
func TestOvertake(t *testing.T) {
	set := counted(t, 10)
	must(t, set, 0, weighs("a", 6), "t-1")
	must(t, set, 1*s, weighs("large", 8))
	n := 0
	small := func(units int) (granted bool) {
		n++
		id := fmt.Sprint("small", n)
		leases, err := set.Acquire(2*s, weighs(id, units))
		if err != nil {
			t.Fatal(err)
		}
		if leases == nil {
			return false
		}
		set.Cancel(3*s, id)
		return true
	}
	for i, c := range []struct {
		units   int
		granted bool
		want    int
	}{{3, true, 3}, {4, true, 7}, {4, false, 7}, {1, false, 7}} {
		if got := small(c.units); got != c.granted {
			t.Errorf("small request %d for %d units is granted: %v", i+1, c.units, got)
		}
		if o := orderOf(t, set, 4*s, "large"); o.Overtaken != c.want || o.MayOvertake != 10 {
			t.Errorf("after small request %d: %+v", i+1, o)
		}
	}
	// The one for four units fits, and must not go: so nobody behind it goes either. When it has
	// gone, there are three units left for others.
	if st, _ := set.Status(4*s, "small4"); st.Reason.String() != "behind" {
		t.Errorf("%+v", st)
	}
	set.Cancel(5*s, "small3")
	if st, _ := set.Status(5*s, "small4"); st.State != StateGranted {
		t.Errorf("%+v", st)
	}
	if !small(2) || small(1) {
		t.Error("three units in all went, or not even those")
	}
	if o := orderOf(t, set, 6*s, "large"); o.Overtaken != 10 {
		t.Errorf("%+v", o)
	}
	set.Drain()
	set.Cancel(7*s, "a")
	changed(t, set, "released t-1", "remembered a", "granted large [t-6]", "granted small6 [t-7]")
}

// The setting of the pool says how much may go ahead, and a new one counts at once.
func TestOvertakeSetting(t *testing.T) {
	for _, c := range []struct {
		overtake *Decimal
		want     int // units that go ahead
	}{{nil, 10}, {&Decimal{}, 0}, {&Decimal{billion / 2}, 5}, {&Decimal{billion/4 - 1}, 2}, {&Decimal{3 * billion}, 30}} {
		set := with(t, Config{Type: "t", Units: 10, Overtake: c.overtake})
		must(t, set, 0, weighs("a", 6), "t-1")
		must(t, set, 0, weighs("large", 8))
		got := 0
		for i := range 50 {
			id := fmt.Sprint(i)
			if leases, _ := set.Acquire(1*s, weighs(id, 1)); leases == nil {
				break
			}
			got++
			set.Cancel(1*s, id)
		}
		if o := orderOf(t, set, 1*s, "large"); got != c.want || o.Overtaken != got || o.MayOvertake != got {
			t.Errorf("%v: %d went ahead, want %d; %+v", c.overtake, got, c.want, o)
		}
		mustReconfigure(t, set, 2*s, Config{Type: "t", Units: 10, Overtake: &Decimal{4 * billion}})
		must(t, set, 2*s, weighs("now", 1), fmt.Sprint("t-", got+2+map[bool]int{true: 1}[got < 50]))
	}
}

// Each that does not fit has a count of its own, and the count outlives restarts.
func TestOvertakenIsKept(t *testing.T) {
	config := Config{Type: "t", Units: 10}
	set := with(t, config)
	must(t, set, 0, weighs("a", 6), "t-1")
	must(t, set, 1*s, weighs("first", 8))
	must(t, set, 2*s, weighs("one", 1), "t-2")
	must(t, set, 3*s, weighs("second", 7))
	set.Drain()
	must(t, set, 4*s, weighs("two", 2), "t-3")
	changed(t, set, "overtaken first 3", "overtaken second 2", "granted two [t-3]")
	for range 3 {
		set = restarted(t, set, config)
	}
	set.Drain()
	for id, want := range map[string]int{"first": 3, "second": 2} {
		must(t, set, 5*s, Request{ID: id, Type: "t", Ask: Ask{Count: map[string]int{"first": 8, "second": 7}[id], Weighted: true}})
		if o := orderOf(t, set, 5*s, id); o.Overtaken != want {
			t.Errorf("%s: %+v, want %d", id, o, want)
		}
	}
}

// Pauses and a pace let nobody pass, and who is away is passed without being counted.
func TestNobodyPasses(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 10, Pace: 5 * s})
	must(t, set, 0, weighs("a", 6), "t-1")
	must(t, set, 1*s, weighs("large", 8))
	must(t, set, 2*s, weighs("small", 1))
	nextIs(t, set, 30*s) // when a unconfirmed ends: six units at a pace of 5 s
	if st, _ := set.Status(3*s, "small"); st.Reason.String() != "paced" {
		t.Errorf("%+v", st)
	}
	set.Renew(3*s, Ref{Name: "t-1"}, 0)
	set.Pause(3*s, "t", Act{Reason: "drill"})
	set.Drain()
	set.Advance(40 * s)
	changed(t, set)
	set.Resume(40*s, "t", Act{})
	changed(t, set, "resumed t", "overtaken large 1", "granted small [t-2]")
	set.Detach(41*s, "large", 0)
	must(t, set, 50*s, weighs("next", 1), "t-3")
	must(t, set, 51*s, weighs("large", 8))
	if o := orderOf(t, set, 51*s, "large"); o.Overtaken != 1 {
		t.Errorf("%+v: it was away", o)
	}
}

// Nobody overtakes a request with overcommit, and what that takes is not counted.
func TestOvertakeOvercommit(t *testing.T) {
	set := with(t, Config{Type: "t", Units: 10, Overcommit: 4})
	must(t, set, 0, weighs("a", 6), "t-1")
	must(t, set, 0, weighs("large", 8))
	u := urgent("u")
	u.Weighted, u.Count = true, 2
	must(t, set, 0, u, "t-2")
	if o := orderOf(t, set, 0, "large"); o.Overtaken != 0 {
		t.Errorf("%+v", o)
	}
	v := urgent("v")
	v.Weighted, v.Count = true, 9
	must(t, set, 0, v)
	must(t, set, 0, weighs("small", 1))
}

// Of those that wait for one key the first is never overtaken by another of them.
func TestOvertakeByKey(t *testing.T) {
	set := counted(t, 10)
	must(t, set, 0, weighs("a", 6), "t-1")
	large, same, other := weighs("large", 8), weighs("same", 1), weighs("other", 1)
	large.Key, same.Key, other.Key = "k", "k", "l"
	must(t, set, 0, large)
	must(t, set, 0, same)
	must(t, set, 0, other, "t-2")
	if st, _ := set.Status(0, "same"); st.Reason.String() != "behind" {
		t.Errorf("%+v", st)
	}
}

// Only the first candidates are looked at: who is further behind overtakes nobody.
func TestLookahead(t *testing.T) {
	set := counted(t, 10)
	must(t, set, 0, weighs("a", 6), "t-1")
	for i := range Lookahead {
		must(t, set, 0, weighs(fmt.Sprint("large", i), 8))
	}
	must(t, set, 0, weighs("small", 1))
	set.Drain()
	set.Cancel(1*s, "large0")
	changed(t, set, slices.Concat([]string{"dropped large0: the request has ended or was cancelled", "remembered large0"},
		overtaken("large", 1, Lookahead), []string{"granted small [t-2]"})...)
}

func overtaken(prefix string, from, to int) (words []string) {
	for i := from; i < to; i++ {
		words = append(words, fmt.Sprintf("overtaken %s%d 1", prefix, i))
	}
	return words
}

// What overtook a leader overtook its followers too: it counts for the one that waits in its place.
func TestOvertakenFollower(t *testing.T) {
	set := counted(t, 10)
	must(t, set, 0, weighs("a", 6), "t-1")
	lead, follower := merging("lead", Join, "v"), merging("follower", Join, "v")
	lead.Weighted, lead.Count, follower.Weighted, follower.Count = true, 8, true, 8
	must(t, set, 1*s, lead)
	must(t, set, 2*s, follower)
	must(t, set, 3*s, weighs("small", 3), "t-2")
	set.Cancel(4*s, "lead")
	if o := orderOf(t, set, 4*s, "follower"); o.Overtaken != 3 {
		t.Errorf("%+v", o)
	}
}

// randomWeights plays random requests of random weights and priorities in one pool, whose
// clients all stay. see is called before a grant is counted, with those that wait and what is free.
func randomWeights(t *rapid.T, c Config, most int, see func(set *Set, now time.Duration, granted string, waiting map[string]*seen, free int)) {
	c.Type = "t"
	if c.Units = 8; most == 1 {
		c.Units, c.Names = 0, numbered("t", 3)
	}
	set, err := New([]Config{c}, Snapshot{}, rapid.SampledFrom([]time.Duration{0, 5 * s, time.Minute}).Draw(t, "aging"))
	if err != nil {
		t.Fatal(err)
	}
	var now time.Duration
	waiting := map[string]*seen{}
	var held []Lease
	n, inUse := 0, 0
	follow := func() {
		for _, change := range set.Drain() {
			switch change.Kind {
			case Granted:
				see(set, now, change.ID, waiting, c.Capacity()-inUse)
				delete(waiting, change.ID)
				for _, l := range change.Leases {
					held, inUse = append(held, l), inUse+l.Units
				}
			case Done:
				inUse -= change.Lease.Units
				held = slices.DeleteFunc(held, func(l Lease) bool { return l.Generation == change.Lease.Generation })
			case Dropped:
				delete(waiting, change.ID)
			}
		}
	}
	rounds(t, &now, // a holder is gone soon, so that the queue moves
		func() {
			n++
			set.Advance(now)
			follow()
			q := weighs(fmt.Sprint(n), min(most, rapid.SampledFrom([]int{1, 2, 3, 7, 8}).Draw(t, "units")))
			q.Priority = rapid.IntRange(-3, 3).Draw(t, "priority")
			waiting[q.ID] = &seen{units: q.Count, rank: rank{now - time.Duration(q.Priority)*set.aging, uint64(n)}}
			if set.aging == 0 {
				waiting[q.ID].rank.at = -time.Duration(q.Priority)
			}
			if _, err := set.Acquire(now, q); err != nil {
				t.Fatal(err)
			}
			follow()
		},
		func() {
			set.Advance(now)
			follow()
			if len(held) > 0 {
				set.Release(now, ref(held[rapid.IntRange(0, len(held)-1).Draw(t, "lease")]), 0)
			}
			follow()
		},
	)
}

// seen is a waiter, as one sees it from outside.
type seen struct {
	units     int
	rank      rank
	overtaken int
}

// No more units than the bound go ahead of a waiter to requests of worse rank, and each of these goes
// while the waiter would not have fitted.
func TestPropertyOvertaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		overtake := Decimal{rapid.SampledFrom([]int64{0, billion / 2, billion, 2 * billion}).Draw(t, "overtake")}
		bound := int(8 * overtake.billionths / billion)
		randomWeights(t, Config{Overtake: &overtake}, 8, func(_ *Set, _ time.Duration, granted string, waiting map[string]*seen, free int) {
			for id, w := range waiting {
				if id == granted || waiting[granted].rank.before(w.rank) {
					continue
				}
				w.overtaken += waiting[granted].units
				if w.units <= free {
					t.Fatalf("%s, which needs %d of %d free units, was overtaken by %s", id, w.units, free, granted)
				}
				if w.overtaken > bound {
					t.Fatalf("%s was overtaken by %d units, and the bound is %d", id, w.overtaken, bound)
				}
			}
		})
	})
}

// Where all requests are for one, the order is strict: each grant goes to the best rank.
func TestPropertyOneEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		randomWeights(t, Config{}, 1, func(_ *Set, _ time.Duration, granted string, waiting map[string]*seen, _ int) {
			for id, w := range waiting {
				if w.rank.before(waiting[granted].rank) {
					t.Fatalf("%s was granted before %s", granted, id)
				}
			}
		})
	})
}
