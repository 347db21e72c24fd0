package pool

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A request that does not wait is told what it would be told if it waited.
func TestProspect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Type: "t", Units: 6, Overcommit: 2}
		if rapid.Bool().Draw(t, "paced") {
			c.Pace = time.Hour
		}
		set, err := New([]Config{c}, Snapshot{}, PriorityAging)
		if err != nil {
			t.Fatal(err)
		}
		some := func(id string) Request {
			return Request{
				ID: id, Type: "t", Ask: Ask{
					Count: rapid.IntRange(1, 6).Draw(t, "count"), Weighted: true,
					Key:        rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(t, "key"),
					Overcommit: rapid.Bool().Draw(t, "overcommit"),
				},
			}
		}
		now := time.Duration(0)
		for i := range rapid.IntRange(0, 6).Draw(t, "requests") {
			now += time.Minute
			set.Acquire(now, some(string(rune('a'+i))))
			if rapid.Bool().Draw(t, "away") {
				set.Detach(now, string(rune('a'+i)), 0)
			}
		}
		if rapid.Bool().Draw(t, "paused") {
			set.Pause(now, "t", Act{Reason: "drill"})
		}
		q := some("new")
		q.Try = true
		_, err = set.Acquire(now, q)
		exhausted, ok := errors.AsType[*ExhaustedError](err)
		if !ok {
			t.Skip(err)
		}
		q.Try = false
		if leases, err := set.Acquire(now, q); err != nil || leases != nil {
			t.Fatalf("acquire: %v, %v", leases, err)
		}
		waits, _ := set.Status(now, "new")
		told := exhausted.Status
		if told.Reason != waits.Reason || told.Place != waits.Place || told.Length != waits.Length || told.Estimate != waits.Estimate || told.EstimateMax != waits.EstimateMax {
			t.Fatalf("told %+v, and if it waits %+v", told, waits)
		}
	})
}
