package etcd

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// keys are the keys of etcd that a table writes.
type keys map[string][]byte

// commit does what one commit of changes does.
func (k keys) commit(t *testing.T, table *table, changes ...pool.Change) {
	t.Helper()
	for _, c := range changes {
		if err := table.add(c); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range table.flush() {
		table.keys += w.keys
		if w.Put != nil {
			k[string(w.Put.Key)] = w.Put.Value
		} else {
			delete(k, string(w.Delete.Key))
		}
	}
	if table.keys != len(k) {
		t.Errorf("the table counts %d keys, and there are %d", table.keys, len(k))
	}
}

// load reads them as a new leader does.
func (k keys) load(t *testing.T) (*table, pool.Snapshot) {
	t.Helper()
	var snap pool.Snapshot
	loaded := newTable("/records/")
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if err := loaded.load(keyValue{Key: []byte(key), Value: k[key]}, &snap); err != nil {
			t.Fatal(err)
		}
	}
	loaded.dropOlder(&snap)
	return loaded, snap
}

// What is reported of a lease that has ended takes the place of what is known of it, in
// the commit that ended it and in a later one, and is forgotten with it.
func TestReportOfAnEndedLease(t *testing.T) {
	ended := func(id string, until time.Duration, said pool.Outcome) pool.Ended {
		return pool.Ended{ID: id, Until: until, Lease: pool.EndedLease{Type: "q", Generation: 1, Units: 1, Limit: 1, Outcome: said}}
	}
	remembered := func(id string, until time.Duration) pool.Change {
		return pool.Change{Kind: pool.Remembered, Ended: ended(id, until, pool.NoOutcome)}
	}
	told := func(id string, until time.Duration) pool.Change {
		return pool.Change{Kind: pool.Told, Ended: ended(id, until, pool.OutcomeThrottled), Reported: &pool.Reported{}}
	}
	k, table := make(keys), newTable("/records/")
	k.commit(t, table, remembered("a", 1), remembered("b", 2), told("b", 2))
	k.commit(t, table, remembered("c", 3))
	for range 2 { // by the leader that ended it, and by a new one
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
		if _, err := pool.New([]pool.Config{{Type: "q", Names: []string{"q-0"}}}, snap); err != nil {
			t.Errorf("no server could begin with it: %v", err)
		}
	}
	earlier := newTable("/records/") // an earlier program left both
	earlier.next = table.next
	earlier.keys = table.keys
	k.commit(t, earlier, told("c", 3))
	table, snap := k.load(t)
	if len(snap.Ended) != 3 || snap.Ended[2].ID != "c" || snap.Ended[2].Lease.Outcome != pool.OutcomeThrottled {
		t.Errorf("of a store with both records, ended are %+v", snap.Ended)
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
	told := pool.Change{Kind: pool.Told, Reported: &pool.Reported{}, Ended: pool.Ended{
		ID: "a", Until: 1, Lease: pool.EndedLease{Type: "q", Generation: 1, Units: 1, Limit: 1, Outcome: pool.OutcomeOK},
	}}
	k, table := make(keys), newTable("/records/")
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
