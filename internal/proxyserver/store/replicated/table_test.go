package replicated

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// testBounds are those of etcd.
var testBounds = Bounds{Writes: 127, Bytes: 1 << 20, Record: 512 << 10}

// stored is the content of a database.
type stored map[uint64][]byte

// commit applies changes as one commit does.
func (k stored) commit(t *testing.T, table *table, changes ...pool.Change) {
	t.Helper()
	for _, c := range changes {
		if err := table.add(&c); err != nil {
			t.Fatal(err)
		}
	}
	before, keys := len(k), 0
	for _, w := range table.flush() {
		keys += w.keys
		if w.Value != nil {
			k[w.Number] = w.Value
		} else {
			delete(k, w.Number)
		}
	}
	if keys != len(k)-before {
		t.Errorf("the table counts %d more records, and there are %d", keys, len(k)-before)
	}
}

// load reads the records as a new leader does.
func (k stored) load(t *testing.T) (*table, pool.Snapshot) {
	t.Helper()
	var snap pool.Snapshot
	loaded := newTable(testBounds)
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if err := loaded.load(Record{key, k[key]}, &snap); err != nil {
			t.Fatal(err)
		}
	}
	return loaded, snap
}

// A report on a lease that has ended replaces the record of its request, in the commit that
// ended the lease and in a later one. It is forgotten with the request.
func TestReportOfAnEndedLease(t *testing.T) {
	ended := func(id string, until time.Duration, said pool.Outcome) pool.Ended {
		return pool.Ended{ID: id, Until: until, Lease: pool.EndedLease{Type: "q", Generation: 1, Units: 1, Limit: 1, Outcome: said}}
	}
	remembered := func(id string, until time.Duration) pool.Change {
		return pool.Change{Kind: pool.Remembered, Ended: ended(id, until, pool.NoOutcome)}
	}
	told := func(id string, until time.Duration) pool.Change {
		return pool.Change{Kind: pool.ReportCounted, Ended: ended(id, until, pool.OutcomeThrottled), Reported: &pool.Reported{}}
	}
	k, table := make(stored), newTable(testBounds)
	k.commit(t, table, remembered("a", 1), remembered("b", 2), told("b", 2))
	k.commit(t, table, remembered("c", 3))
	for range 2 { // by the leader that ended the lease, and by a new leader
		k.commit(t, table, told("a", 1))
		var snap pool.Snapshot
		table, snap = k.load(t)
		said := make(map[string]pool.Outcome)
		for _, e := range snap.Ended {
			said[e.ID] = e.Lease.Outcome
		}
		if len(snap.Ended) != 3 || said["a"] != pool.OutcomeThrottled || said["b"] != pool.OutcomeThrottled {
			t.Errorf("ended are %+v", snap.Ended)
		}
		if _, err := pool.New([]pool.Config{{Type: "q", Names: []string{"q-0"}}}, snap, pool.PriorityAging); err != nil {
			t.Errorf("no server could begin with it: %v", err)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		k.commit(t, table, pool.Change{Kind: pool.Forgotten, Ended: ended(id, time.Duration(id[0]-'a'+1), pool.NoOutcome)})
	}
	if len(k) > 0 {
		t.Errorf("%d keys are left of requests that are forgotten", len(k))
	}
}

// A request that has ended stays remembered with every new leader, even if its record
// comes after one that is remembered longer: it was told of its lease late, or many
// ended at one time, and were too many for one key.
func TestEndedStaysRemembered(t *testing.T) {
	remembered := func(id string, until time.Duration) pool.Change {
		return pool.Change{Kind: pool.Remembered, Ended: pool.Ended{ID: id, Until: until}}
	}
	told := pool.Change{Kind: pool.ReportCounted, Reported: &pool.Reported{}, Ended: pool.Ended{
		ID: "a", Until: 1, Lease: pool.EndedLease{Type: "q", Generation: 1, Units: 1, Limit: 1, Outcome: pool.OutcomeOK},
	}}
	k, table := make(stored), newTable(testBounds)
	k.commit(t, table, remembered("a", 1))
	k.commit(t, table, remembered("z", 2))
	k.commit(t, table, remembered("y", 2))
	k.commit(t, table, told)
	for range 2 {
		var snap pool.Snapshot
		if table, snap = k.load(t); len(snap.Ended) != 3 {
			t.Fatalf("ended are %+v", snap.Ended)
		}
		k.commit(t, table, remembered("later", 3))
		k.commit(t, table, pool.Change{Kind: pool.Forgotten, Ended: pool.Ended{ID: "later", Until: 3}})
	}
}

// A request is one record of the database, however many names it has, up to the bound of a record.
func TestManyNames(t *testing.T) {
	k, table := make(stored), newTable(testBounds)
	for _, n := range []int{1, 20_000, 60_000} {
		leases := make([]pool.Lease, n)
		for i := range leases {
			leases[i] = pool.Lease{
				Name: fmt.Sprintf("quota-%d", i), Type: "quota", Generation: uint64(1795319510060286 + i), Ask: pool.Ask{Count: n},
				RequestID: "r", Owner: strings.Repeat("https://ci.example.org/", 10), TTL: time.Hour, Granted: 5,
			}
		}
		k.commit(t, table, pool.Change{Kind: pool.Granted, Leases: leases})
		if n <= 20_000 && len(k) != 1 {
			t.Errorf("%d names are %d records", n, len(k))
		}
		var snap pool.Snapshot
		if table, snap = k.load(t); len(snap.Leases) != n {
			t.Errorf("loaded %d leases of %d", len(snap.Leases), n)
		}
		var all []pool.Change
		for _, lease := range leases {
			ended := pool.Ended{ID: lease.Name, Until: 1}
			all = append(all, pool.Change{Kind: pool.Done, Lease: lease},
				pool.Change{Kind: pool.Remembered, Ended: ended}, pool.Change{Kind: pool.Forgotten, Ended: ended})
		}
		k.commit(t, table, all...)
		if len(k) != 0 || len(table.places) != 0 {
			t.Errorf("%d are left, with %d records", len(k), len(table.places))
		}
	}
}
