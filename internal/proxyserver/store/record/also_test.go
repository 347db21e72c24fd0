package record

import (
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// A request of several pools that waits comes back with what it wants of each, and what overtook it.
func TestSeveralComeBack(t *testing.T) {
	set, err := pool.New([]pool.Config{{Type: "a", Names: pool.Numbered("a", 3)}, {Type: "b", Names: pool.Numbered("b", 1)}}, pool.Snapshot{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []pool.Request{
		{ID: "granted", Type: "a", Ask: pool.Ask{Also: "b=1"}},
		{ID: "waits", Type: "a", Ask: pool.Ask{Also: "b"}},
		{ID: "passes", Type: "a"},
	} {
		if _, err := set.Acquire(time.Second, q); err != nil {
			t.Fatal(err)
		}
	}
	table := make(memory)
	for _, c := range set.Drain() {
		if err := Write(table, &c); err != nil {
			t.Fatal(err)
		}
	}
	got, want := table.snapshot(t), set.Snapshot()
	if len(got.Waiters) != 1 || got.Waiters[0] != want.Waiters[0] || got.Waiters[0].Passed == "" || got.Waiters[0].AlsoUnits != "b=1" {
		t.Errorf("waiters %+v, want %+v", got.Waiters, want.Waiters)
	}
	if len(got.Leases) != 3 {
		t.Errorf("leases %+v", got.Leases)
	}
}
