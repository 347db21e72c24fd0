package pool

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rounds calls one of ops, by a random choice, a random number of times, and
// lets some time go by before each.
func rounds(t *rapid.T, now *time.Duration, ops ...func()) {
	for range rapid.IntRange(1, 80).Draw(t, "rounds") {
		*now += time.Duration(rapid.IntRange(0, 4_000).Draw(t, "elapsed ms")) * time.Millisecond
		ops[rapid.IntRange(0, len(ops)-1).Draw(t, "op")]()
	}
}

// rapidSet returns a Set with a pool "t" of a few names.
func rapidSet(t *rapid.T, c Config) *Set {
	c.Type, c.Names = "t", numbered("t", rapid.IntRange(1, 5).Draw(t, "names"))
	set, err := New([]Config{c}, Snapshot{}, PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func drawPace(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(0, 5).Draw(t, "pace s")) * s
}

// In a pool that nobody overtakes in, of requests whose clients stay none is granted before an earlier
// one, whatever their counts and the pace, and whoever else gives up or comes.
func TestPropertyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapidSet(t, Config{Pace: drawPace(t), Overtake: strictly})
		var now time.Duration
		var waiting []string // by arrival
		var held []Lease
		n := 0
		follow := func() {
			for _, c := range set.Drain() {
				switch c.Kind {
				case Granted:
					if len(waiting) == 0 || waiting[0] != c.ID {
						t.Fatalf("%s was granted, and %v wait", c.ID, waiting)
					}
					waiting = waiting[1:]
					held = append(held, c.Leases...)
				case Dropped:
					waiting = slices.DeleteFunc(waiting, func(id string) bool { return id == c.ID })
				}
			}
		}
		rounds(t, &now,
			func() {
				n++
				q := Request{ID: fmt.Sprint(n), Type: "t", Ask: Ask{Count: rapid.IntRange(1, len(set.types["t"].Names)).Draw(t, "count")}}
				waiting = append(waiting, q.ID)
				if _, err := set.Acquire(now, q); err != nil {
					t.Fatal(err)
				}
				follow()
			},
			func() {
				if len(held) > 0 {
					i := rapid.IntRange(0, len(held)-1).Draw(t, "lease")
					set.Release(now, ref(held[i]), 0)
					held = slices.Delete(held, i, i+1)
				}
				follow()
			},
			func() {
				if len(waiting) > 0 {
					set.Cancel(now, waiting[rapid.IntRange(0, len(waiting)-1).Draw(t, "waiter")])
				}
				follow()
			},
		)
	})
}

// A request holds as many names as it asked for, or none.
func TestPropertyAllOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapidSet(t, Config{Pace: drawPace(t)})
		names := set.types["t"].Names
		var now time.Duration
		counts := map[string]int{}
		anyID := func() string { return fmt.Sprint(rapid.IntRange(0, 8).Draw(t, "id")) }
		check := func() {
			for id, count := range counts {
				if st, _ := set.Status(now, id); len(st.Leases) != 0 && len(st.Leases) != count {
					t.Fatalf("%s holds %d names of %d", id, len(st.Leases), count)
				}
			}
		}
		rounds(t, &now,
			func() {
				check()
				q := Request{ID: anyID(), Type: "t", Ask: Ask{Count: rapid.IntRange(1, len(names)).Draw(t, "count")}}
				if _, err := set.Acquire(now, q); err == nil {
					counts[q.ID] = q.Count
				}
			},
			func() { set.Cancel(now, anyID()) },
			func() { set.Detach(now, anyID(), 0) },
			func() {
				n := rapid.IntRange(1, len(names)).Draw(t, "capacity")
				if err := set.Reconfigure(now, []Config{{Type: "t", Names: names[:n]}}); err != nil {
					t.Fatal(err)
				}
			},
		)
		check()
	})
}

// An id is granted at most once, however often it arrives, whatever was cancelled before or
// since, and over any number of restarts. Every copy of the request that is answered with
// leases gets the same leases.
func TestPropertyIdempotentID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapidSet(t, Config{Pace: drawPace(t)})
		config := set.types["t"].Config
		var now time.Duration
		var grant []Lease
		grants := 0
		cancelled := false
		follow := func() {
			for _, c := range set.Drain() {
				if c.Kind == Granted && c.ID == "it" {
					if grants++; grants > 1 {
						t.Fatal("granted twice")
					}
				}
			}
		}
		q := Request{ID: "it", Type: "t", Ask: Ask{Count: rapid.IntRange(1, len(config.Names)).Draw(t, "count")}}
		rounds(t, &now,
			func() {
				leases, err := set.Acquire(now, q)
				if cancelled && !errors.Is(err, ErrEnded) {
					t.Fatalf("after it was cancelled: %v, %v", leases, err)
				}
				for i, l := range leases {
					if grant != nil && ref(l) != ref(grant[i]) {
						t.Fatalf("granted %v and %v", grant, leases)
					}
				}
				if leases != nil {
					grant = leases
				}
				follow()
			},
			func() {
				if leases, err := set.Acquire(now, Request{ID: "other", Type: "t"}); err == nil && leases != nil {
					set.Release(now, ref(leases[0]), 5*s)
				}
			},
			func() { set.Detach(now, q.ID, 2*s) },
			func() {
				if rapid.IntRange(0, 3).Draw(t, "cancel") == 0 {
					set.Cancel(now, q.ID)
					cancelled = true
				}
			},
			func() {
				follow()
				set = restarted(t, set, config)
			},
		)
	})
}

// Releasing a lease that is over, delayed or not, early or late, changes nothing for the
// present holder of its name.
func TestPropertyReleaseEndsNoSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapidSet(t, Config{})
		var now time.Duration
		var leases []Lease
		n := 0
		delay := func() time.Duration { return time.Duration(rapid.IntRange(0, 20).Draw(t, "delay s")) * s }
		current := func() (all []Lease) { return set.Pools(now)[0].Leases }
		rounds(t, &now,
			func() {
				n++
				got, err := set.Acquire(now, Request{ID: fmt.Sprint(n), Type: "t", Owner: fmt.Sprint(n), Anonymous: true})
				if err != nil {
					t.Fatal(err)
				}
				leases = append(leases, got...)
			},
			func() { // the holder's own release
				if all := current(); len(all) > 0 {
					set.Release(now, ref(all[0]), delay())
				}
			},
			func() {
				if len(leases) == 0 {
					return
				}
				old := leases[rapid.IntRange(0, len(leases)-1).Draw(t, "lease")]
				before := current()
				if slices.ContainsFunc(before, func(l Lease) bool { return l.Generation == old.Generation }) {
					return
				}
				r := ref(old)
				if rapid.Bool().Draw(t, "by owner") {
					r = Ref{Name: old.Name, Owner: old.Owner}
				}
				set.Release(now, r, delay())
				if after := current(); !slices.Equal(before, after) {
					t.Fatalf("release of %+v changed %+v to %+v", old, before, after)
				}
			},
		)
	})
}

// A call first does what is due: it has the same outcome as after an Advance to its time.
func TestPropertyCallsAdvance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pace := drawPace(t)
		names := numbered("t", rapid.IntRange(1, 4).Draw(t, "names"))
		var sets [2]*Set
		for i := range sets {
			var err error
			if sets[i], err = New([]Config{{Type: "t", Names: names, Pace: pace}}, Snapshot{}, PriorityAging); err != nil {
				t.Fatal(err)
			}
		}
		var now time.Duration
		do := func(call func(*Set) string) {
			sets[1].Advance(now)
			first, second := call(sets[0]), call(sets[1])
			if first != second {
				t.Fatalf("at %v the answer is\n%s\nand after an Advance\n%s", now, first, second)
			}
			a, b := sets[0].Drain(), sets[1].Drain()
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("at %v changed\n%v\nand after an Advance\n%v", now, a, b)
			}
		}
		id := func() string { return fmt.Sprint(rapid.IntRange(0, 6).Draw(t, "id")) }
		name := func() string { return rapid.SampledFrom(names).Draw(t, "name") }
		ops := []func(){
			func() {
				q := Request{ID: id(), Type: "t", Ask: Ask{Count: rapid.IntRange(1, len(names)).Draw(t, "count")}}
				do(func(set *Set) string { return fmt.Sprint(set.Acquire(now, q)) })
			},
			func() { id := id(); do(func(set *Set) string { set.Detach(now, id, 2*s); return "" }) },
			func() { id := id(); do(func(set *Set) string { return fmt.Sprint(set.Cancel(now, id)) }) },
			func() { id := id(); do(func(set *Set) string { return fmt.Sprint(set.Withdraw(now, id)) }) },
			func() {
				id := id()
				do(func(set *Set) string { st, ok := set.Status(now, id); st.Oldest = nil; return fmt.Sprint(st, ok) })
			},
			func() { do(func(set *Set) string { return fmt.Sprint(set.Pools(now)) }) },
			func() {
				r := Ref{Name: name()}
				do(func(set *Set) string { return fmt.Sprint(set.Renew(now, r, 10*s)) })
			},
			func() { r := Ref{Name: name()}; do(func(set *Set) string { return string(set.Release(now, r, 0)) }) },
			func() { r := Ref{Name: name()}; do(func(set *Set) string { return string(set.Release(now, r, 5*s)) }) },
			func() {
				n := name()
				do(func(set *Set) string { return fmt.Sprint(set.Break(now, n, Act{Reason: "drill"}, false)) })
			},
			func() {
				n := name()
				do(func(set *Set) string { return fmt.Sprint(set.Break(now, n, Act{Reason: "drill"}, true)) })
			},
			func() {
				config := Config{Type: "t", Names: names[:rapid.IntRange(1, len(names)).Draw(t, "capacity")], Pace: pace}
				do(func(set *Set) string { return fmt.Sprint(set.Reconfigure(now, []Config{config})) })
			},
		}
		rounds(t, &now, ops...)
	})
}
