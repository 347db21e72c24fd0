package pool

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// From any grant to any later one, at least as many paces go by as names were granted from the
// first grant on, less half a pace; whoever comes, goes, holds and is idle for however long.
func TestPropertyPaceHoldsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pace = 3 * s
		set := rapidSet(t, Config{Pace: pace})
		var now time.Duration
		type grant struct {
			at    time.Duration
			names int
		}
		var grants []grant
		var held []Lease
		n := 0
		follow := func() {
			for _, c := range set.Drain() {
				if c.Kind == Granted {
					grants = append(grants, grant{now, len(c.Leases)})
					held = append(held, c.Leases...)
				}
			}
		}
		rounds(t, &now,
			func() {
				n++
				q := Request{ID: fmt.Sprint(n), Type: "t", Ask: Ask{Count: rapid.IntRange(1, len(set.types["t"].Names)).Draw(t, "count")}}
				if _, err := set.Acquire(now, q); err != nil {
					t.Fatal(err)
				}
				follow()
			},
			func() {
				if len(held) > 0 {
					set.Release(now, ref(held[0]), 0)
					held = held[1:]
				}
				follow()
			},
			func() {
				if next, ok := set.Next(); ok {
					now = max(now, next)
				}
				set.Advance(now)
				follow()
			},
			func() {
				now += time.Duration(rapid.IntRange(0, 100).Draw(t, "idle s")) * s
				set.Detach(now, fmt.Sprint(n), 0)
				follow()
			},
		)
		for i, from := range grants {
			names := 0
			for j := i + 1; j < len(grants); j++ {
				names += grants[j-1].names
				took, least := grants[j].at-from.at, time.Duration(names)*pace-pace/2
				if took < least {
					t.Fatalf("the next grant after %d names from %v on came after %v, want at least %v: %v", names, from.at, took, least, grants)
				}
			}
		}
	})
}

// A timer that is late by up to half a pace each time delays only the grant that it is late
// with.
func TestPropertyPaceKeepsDueTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pace = 10 * s
		set, err := New([]Config{{Type: "t", Names: numbered("t", 40), Pace: pace}}, Snapshot{}, PriorityAging)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if _, err := set.Acquire(0, Request{ID: fmt.Sprint(i), Type: "t", Anonymous: true}); err != nil {
				t.Fatal(err)
			}
		}
		set.Drain()
		for i := 1; i < 40; i++ {
			due := time.Duration(i) * pace
			if next, _ := set.Next(); next != due {
				t.Fatalf("grant %d is due at %v, want %v", i, next, due)
			}
			set.Advance(due + time.Duration(rapid.Int64Range(0, int64(pace/2)).Draw(t, "late")))
			if grants := len(words(set.Drain())); grants != 1 {
				t.Fatalf("%d grants at %v", grants, due)
			}
		}
	})
}
