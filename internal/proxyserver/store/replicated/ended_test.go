package replicated

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// aged is a table with n ended ids, each in a bundle of its own, as one client at a time makes them.
type aged struct {
	*table
	first, next int // ids
}

func newAged(n int) *aged {
	a := &aged{table: newTable(testBounds)}
	for range n {
		a.end(pool.Remembered, a.next)
		a.next++
		a.flush()
	}
	return a
}

// end applies a change to an ended id.
func (a *aged) end(kind pool.Kind, id int) {
	c := pool.Change{Kind: kind, Ended: pool.Ended{ID: fmt.Sprint(id), Until: time.Duration(id + 1)}}
	if kind == pool.ReportCounted {
		c.Ended.Lease = pool.EndedLease{Type: "q", Generation: 1, Units: 1, Limit: 1, Outcome: pool.OutcomeOK}
	}
	if err := a.add(&c); err != nil {
		panic(err)
	}
}

// turn is a commit of the steady state: it ends an id, and forgets the oldest.
func (a *aged) turn() []write {
	a.end(pool.Remembered, a.next)
	a.end(pool.Forgotten, a.first)
	a.next++
	a.first++
	return a.flush()
}

// A commit looks at no more bundles after many ended ids than after few: one for each id that it
// forgets or that a report is about.
func TestCommitsStayCheap(t *testing.T) {
	for _, n := range []int{100, 10_000} {
		a := newAged(n)
		const commits = 50
		for i := range commits {
			if writes := a.turn(); len(writes) != 2 {
				t.Fatalf("%d ids: a commit has %d writes", n, len(writes))
			}
			a.end(pool.ReportCounted, n/2+i) // its record is in the middle
			if writes := a.flush(); len(writes) != 1 {
				t.Fatalf("%d ids: the commit of a report has %d writes", n, len(writes))
			}
		}
		if a.ended.looked > 2*commits {
			t.Errorf("%d ids: %d commits looked at %d bundles", n, 2*commits, a.ended.looked)
		}
		if len(a.ended.bundles) != n {
			t.Errorf("%d ids: there are %d bundles", n, len(a.ended.bundles))
		}
	}
}

// Bundles that become empty between others go, too, as soon as those before them are gone.
func TestBundlesInTheMiddle(t *testing.T) {
	a := newAged(10)
	for _, id := range []int{8, 5, 3, 9, 0, 1, 2, 4} {
		a.end(pool.Forgotten, id)
		if writes := a.flush(); len(writes) != 1 || writes[0].keys != -1 {
			t.Fatalf("forgetting %d writes %+v", id, writes)
		}
	}
	if n := len(a.ended.bundles); n != 4 { // 6, 7, and the empty 8 and 9
		t.Errorf("%d bundles are left", n)
	}
	a.end(pool.Forgotten, 6)
	a.end(pool.Forgotten, 7)
	if a.flush(); len(a.ended.bundles) != 0 {
		t.Errorf("%d bundles are left of none", len(a.ended.bundles))
	}
}

// Ids are found whatever their order in the database, which is another while the time for which
// they are kept is changed.
func TestBundlesOutOfOrder(t *testing.T) {
	k, table := make(stored), newTable(testBounds)
	remembered := func(id string, until time.Duration) pool.Change {
		return pool.Change{Kind: pool.Remembered, Ended: pool.Ended{ID: id, Until: until}}
	}
	k.commit(t, table, remembered("a", 30), remembered("b", 10))
	k.commit(t, table, remembered("c", 20))
	k.commit(t, table, remembered("d", 5))
	k.commit(t, table, remembered("e", 40))
	table, _ = k.load(t)
	for _, c := range []pool.Change{remembered("d", 5), remembered("c", 20), remembered("e", 40), remembered("b", 10), remembered("a", 30)} {
		c.Kind = pool.Forgotten
		k.commit(t, table, c)
	}
	if len(k) != 0 {
		t.Errorf("%d records are left", len(k))
	}
}

// BenchmarkAged measures the work of the table for a commit of the steady state: it forgets an id
// for each that it ends.
func BenchmarkAged(b *testing.B) {
	for _, n := range []int{1, 1000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := newAged(n)
			for b.Loop() {
				a.turn()
			}
		})
	}
}
