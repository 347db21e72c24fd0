package bolt

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// testdata/format1.db was written by `leasectl serve` of 2026-11-21, and is what
// the last stop of that server left. Its leases were acquired, renewed, delayed and
// broken over HTTP.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), read(t, "testdata/format1.db"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir)
	snap, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(snap.Leases, func(a, b pool.Lease) int { return cmp.Compare(a.Generation, b.Generation) })
	const g = 1795319510060286
	for i := range snap.Leases { // the second in which the calls came is left to the machine
		l := &snap.Leases[i]
		if l.Granted <= 0 || l.Granted > 2*time.Second {
			t.Errorf("%s: granted at %v", l.Name, l.Granted)
		}
		l.Granted = 0
	}
	if l := snap.Leases; len(l) == 5 {
		if at := l[3].ReleaseAt - 20*time.Minute; at <= 0 || at > 2*time.Second {
			t.Errorf("a release at %v", l[3].ReleaseAt)
		}
		if at := l[4].Expires - 30*time.Second; at <= 0 || at > 2*time.Second {
			t.Errorf("a broken lease ends at %v", l[4].Expires)
		}
		l[3].ReleaseAt, l[4].Expires = 1, 1
	}
	want := []pool.Lease{
		{Name: "quota-0", Type: "quota", Generation: g, Ask: pool.Ask{Count: 1}, Units: 1, TTL: 4 * time.Hour},
		{Name: "quota-1", Type: "quota", Generation: g + 1, Owner: "job-1", RequestID: "one", Ask: pool.Ask{Count: 2}, Units: 1, TTL: 7 * time.Minute},
		{Name: "quota-2", Type: "quota", Generation: g + 2, Owner: "job-1", RequestID: "one", Ask: pool.Ask{Count: 2}, Units: 1, TTL: 5 * time.Minute, Provisional: true},
		{Name: "quota-3", Type: "quota", Generation: g + 3, Owner: "job-2", RequestID: "two", Ask: pool.Ask{Count: 1}, Units: 1, TTL: 10 * time.Minute, ReleaseAt: 1},
		{Name: "quota-4", Type: "quota", Generation: g + 4, Owner: "job 3", RequestID: "three", Ask: pool.Ask{Count: 1}, Units: 1, TTL: time.Hour, Provisional: true, Broken: "the account is gone", Expires: 1},
	}
	if !reflect.DeepEqual(snap.Leases, want) {
		t.Errorf("leases\n%+v, want\n%+v", snap.Leases, want)
	}
	var ids []string
	for _, e := range snap.Ended {
		ids = append(ids, e.ID)
	}
	if !slices.Equal(ids, []string{"gone", "never-seen"}) || snap.Generation != g+5 || snap.Clock <= 0 {
		t.Errorf("ended %v, generation %d, clock %v", ids, snap.Generation, snap.Clock)
	}

	// It is of today's format now, with an id that it keeps.
	id := s.ID()
	if err := s.Commit(store.Batch{Clock: 1, Generation: g + 9, Changes: []pool.Change{{Kind: pool.Done, Lease: pool.Lease{Name: "quota-0"}}}}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	again := mustOpen(t, dir)
	if snap, err := again.Load(); err != nil || len(snap.Leases) != 4 || again.ID() != id || id == "" {
		t.Errorf("opened again: %d leases, id %q after %q, %v", len(snap.Leases), again.ID(), id, err)
	}
}

// testdata/format2.db was written by `leasectl serve` of 2026-11-22, and is what the
// last stop of that server left. Its leases have one unit each, its waiters as many
// as they asked for, and none has a key. The store keeps its id and its counts.
func TestFormat2(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), read(t, "testdata/format2.db"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir)
	snap, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	const g = 1795330159438456
	slices.SortFunc(snap.Leases, func(a, b pool.Lease) int { return cmp.Compare(a.Generation, b.Generation) })
	slices.SortFunc(snap.Waiters, func(a, b pool.Waiter) int { return cmp.Compare(a.Arrival, b.Arrival) })
	for i := range snap.Leases {
		snap.Leases[i].Granted = 0
	}
	want := []pool.Lease{
		{Name: "quota-0", Type: "quota", Generation: g, Owner: "job-1", RequestID: "one", Ask: pool.Ask{Count: 2}, Units: 1, TTL: 7 * time.Minute, Provisional: true},
		{Name: "quota-1", Type: "quota", Generation: g + 1, Owner: "job-1", RequestID: "one", Ask: pool.Ask{Count: 2}, Units: 1, TTL: 7 * time.Minute, Provisional: true},
		{Name: "quota-2", Type: "quota", Generation: g + 2, Ask: pool.Ask{Count: 1}, Units: 1, TTL: 4 * time.Hour},
		{Name: "quota-4", Type: "quota", Generation: g + 4, Owner: "job-3", RequestID: "three", Ask: pool.Ask{Count: 1}, Units: 1, TTL: 5 * time.Minute, Provisional: true},
		{Name: "paced-0", Type: "paced", Generation: g + 5, Owner: "job-1", RequestID: "four", Ask: pool.Ask{Count: 1}, Units: 1, TTL: 10 * time.Minute, Provisional: true},
	}
	if !reflect.DeepEqual(snap.Leases, want) {
		t.Errorf("leases\n%+v, want\n%+v", snap.Leases, want)
	}
	var waiters []string
	for _, w := range snap.Waiters {
		waiters = append(waiters, fmt.Sprintf("%d %s %s %d %d", w.Arrival, w.ID, w.Owner, w.Count, w.Units))
	}
	if want := []string{"1 waits job-5 2 2", "2 waits-too job-6 3 3"}; !slices.Equal(waiters, want) {
		t.Errorf("waiters %q, want %q", waiters, want)
	}
	if len(snap.Locked) != 1 || snap.Locked[0].Name != "quota-3" || snap.Locked[0].Units != 1 || len(snap.Paced) != 1 || snap.Paced[0].Generation != g+5 {
		t.Errorf("locked %+v, paced %+v", snap.Locked, snap.Paced)
	}
	set, err := pool.New([]pool.Config{{Type: "quota", Names: pool.Numbered("quota", 5)}, {Type: "paced", Names: pool.Numbered("paced", 3)}}, snap)
	if err != nil {
		t.Fatal(err)
	}
	if p := set.Totals(snap.Clock); p[0].InUse != 5 || p[0].Waiting != 1 || p[1].InUse != 1 {
		t.Errorf("pools %+v", p)
	}

	id := s.ID()
	s.Close()
	file, err := os.Open(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if c, err := load(file); err != nil || c.meta.Format != format || c.meta.ID != id || id == "" {
		t.Errorf("afterwards the file has format %d and id %q, %v", c.meta.Format, c.meta.ID, err)
	}
}

// Each earlier format is opened from a file that a program of its time wrote: whoever
// raises the number keeps one, before no program writes it any more.
func TestEveryFormatHasAFile(t *testing.T) {
	for n := 1; n < format; n++ {
		if _, err := os.Stat(fmt.Sprintf("testdata/format%d.db", n)); err != nil {
			t.Error(err)
		}
	}
}

// A store has an id of its own, and keeps it.
func TestID(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	id := s.ID()
	s.Close()
	if again := mustOpen(t, dir).ID(); again != id {
		t.Errorf("id %q, and then %q", id, again)
	}
	if other := mustOpen(t, t.TempDir()).ID(); other == id || len(other) < 20 {
		t.Errorf("another store has id %q, this one %q", other, id)
	}
}
