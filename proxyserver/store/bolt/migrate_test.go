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

// testdata/format1.db was written by `leasectl serve` of 2026-11-21, and is as the last stop
// of that server left it. Its leases were acquired, renewed, delayed and broken over HTTP.
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
	for i := range snap.Leases { // the exact second of a call depends on the machine
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

// testdata/format2.db was written by `leasectl serve` of 2026-11-22, and is as the last stop
// of that server left it. Its leases have one unit each, its waiters as many as they asked
// for, and none has a key. The store keeps its id and its counts.
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
	set, err := pool.New([]pool.Config{{Type: "quota", Names: pool.Numbered("quota", 5)}, {Type: "paced", Names: pool.Numbered("paced", 3)}}, snap, pool.PriorityAging)
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

// testdata/format3.db was written by `leasectl serve` of 2026-11-23, started twice, and is as
// its last stop left it. It has each kind of record of today's format: if a field is renamed,
// the field is lost in earlier stores.
func TestFormat3(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), read(t, "testdata/format3.db"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := mustOpen(t, dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got.Leases, func(a, b pool.Lease) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(got.Waiters, func(a, b pool.Waiter) int { return cmp.Compare(a.Arrival, b.Arrival) })
	const (
		g           = 1795410611445399
		holds, kept = 13375091002, 63375091002
		expires     = 543375091002
	)
	want := pool.Snapshot{
		Clock: 3908017922, Generation: g + 14,
		Leases: []pool.Lease{
			{Name: "ad-1", Type: "ad", Generation: g + 12, Owner: "job-told-1", RequestID: "told-1", Units: 1, Ask: pool.Ask{Count: 1}, Outcome: pool.OutcomeThrottled, Extended: true, TTL: 9 * time.Minute, Granted: 176480036, Expires: expires},
			{Name: "mem-1", Type: "mem", Generation: g + 6, Owner: "job-units", RequestID: "units", Units: 120, Resizes: 1, Ask: pool.Ask{Count: 100, Key: "K", Variant: "V", Coalesce: pool.Join, Weighted: true}, Extended: true, TTL: 9 * time.Minute, Granted: 148763142, Expires: expires},
			{Name: "mem-2", Type: "mem", Generation: g + 7, Owner: "job-items", RequestID: "items", Units: 310, Ask: pool.Ask{Items: 300, HasItems: true, Weighted: true}, Extended: true, TTL: 9 * time.Minute, Granted: 153923133, Expires: expires},
			{Name: "mem-3", Type: "mem", Generation: g + 8, Owner: "job-unsaid", RequestID: "unsaid", Units: 50, Ask: pool.Ask{Weighted: true}, Extended: true, TTL: 9 * time.Minute, Granted: 156461145, Expires: expires},
			{Name: "mem-4", Type: "mem", Generation: g + 9, Owner: "job-over", RequestID: "over", Units: 700, Ask: pool.Ask{Count: 700, Weighted: true, Overcommit: true}, Extended: true, TTL: 9 * time.Minute, Granted: 159880937, Expires: expires},
			{Name: "mem-5", Type: "mem", Generation: g + 13, Owner: "job-key-run", RequestID: "key-run", Units: 1, Ask: pool.Ask{Count: 1, Key: "Z", Weighted: true, Overcommit: true}, Extended: true, TTL: 9 * time.Minute, Granted: 181055423, Expires: expires},
			{Name: "paced-0", Type: "paced", Generation: g + 4, Owner: "job-pair", RequestID: "pair", Units: 1, Ask: pool.Ask{Count: 2}, Extended: true, TTL: 9 * time.Minute, Granted: 145548684, Expires: expires},
			{Name: "paced-1", Type: "paced", Generation: g + 5, Owner: "job-pair", RequestID: "pair", Units: 1, Ask: pool.Ask{Count: 2}, Extended: true, TTL: 9 * time.Minute, Granted: 145548684, Expires: expires},
			{Name: "q-0", Type: "q", Generation: g, Owner: "job-one", RequestID: "one", Units: 1, Ask: pool.Ask{Count: 1}, Extended: true, TTL: 9 * time.Minute, Granted: 55841204, Expires: expires},
			{Name: "q-1", Type: "q", Generation: g + 1, Owner: "job-late", RequestID: "late", Units: 1, Ask: pool.Ask{Count: 1}, Extended: true, TTL: 9 * time.Minute, Granted: 129457680, Expires: expires, ReleaseAt: 3600133705998},
			{Name: "q-2", Type: "q", Generation: g + 2, Owner: "job-broken", RequestID: "broken", Units: 1, Ask: pool.Ask{Count: 1}, TTL: 9 * time.Minute, Granted: 135281794, Expires: 540136861094, Broken: "gone"},
		},
		Ended: []pool.Ended{
			{ID: "freed", Until: 7200144302572, Lease: pool.EndedLease{Type: "q", Owner: "job-freed", Generation: g + 3, Units: 1, Limit: 8}},
			{ID: "ran", Until: 7200166638778, Lease: pool.EndedLease{Type: "q", Owner: "job-ran", Generation: g + 10, Units: 1, Limit: 8}},
			{ID: "never-seen", Until: 7200167787494},
			{ID: "told-0", Until: 7200174405269, Lease: pool.EndedLease{Type: "ad", Owner: "job-told-0", Generation: g + 11, Units: 1, Limit: 6, Outcome: pool.OutcomeOK}},
			{ID: "gone", Until: 7201692009206, Removed: "no: more"},
			{ID: "follows", Until: 7202057946881, Result: 4},
			{ID: "leads", Until: 7202057946881, Lease: pool.EndedLease{Type: "ad", Owner: "job-leads", Generation: g + 14, Units: 1, Limit: 5}},
		},
		Waiters: []pool.Waiter{
			{Request: pool.Request{ID: "joined", Type: "mem", Ask: pool.Ask{Count: 1, Key: "Z", Variant: "X", Coalesce: pool.Once, Weighted: true}, Owner: "job-joined", TTL: 9 * time.Minute}, Units: 1, Arrival: 1, Arrived: 186270194, HoldsUntil: holds, KeptUntil: kept},
			{Request: pool.Request{ID: "rides", Type: "mem", Ask: pool.Ask{Count: 1, Key: "Z", Variant: "X", Coalesce: pool.Once, Weighted: true}, Owner: "job-rides", TTL: 9 * time.Minute}, Units: 1, Arrival: 2, Arrived: 487355304, Follows: "joined", HoldsUntil: holds, KeptUntil: kept},
			{Request: pool.Request{ID: "waits", Type: "mem", Owner: "job-waits", TTL: 9 * time.Minute, Ask: pool.Ask{Items: 200, Key: "K", HasItems: true, Weighted: true}}, Units: 210, Arrival: 3, Arrived: 788780956, HoldsUntil: holds, KeptUntil: kept},
			{Request: pool.Request{ID: "waits-too", Type: "off", Ask: pool.Ask{Count: 1}, Owner: "job-waits-too", TTL: 9 * time.Minute}, Units: 1, Arrival: 4, Arrived: 1090954929, HoldsUntil: holds, KeptUntil: kept},
		},
		Locked: []pool.Locked{
			{Name: "q-3", Type: "q", Units: 1, Until: 7200144302572},
		},
		Paced: []pool.Pacing{
			{Type: "paced", Generation: g + 5, Start: 145548684, Count: 2},
		},
		Named: []pool.Naming{
			{Type: "mem", Last: 5},
		},
		Pauses: []pool.Pause{
			{Type: "off", Reason: `a "quiet" hour`, Since: 184664273},
		},
		Reports: []pool.Reports{
			{Type: "ad", Adaptation: pool.Adaptation{Limit: 5, Wall: 6, Cut: g + 12}, Moved: pool.Move{At: 179469808, From: 6, To: 5, Owner: "job-told-1", Detail: "RequestLimitExceeded"}, Tally: []pool.Tally{{Limit: 6, OK: 1, Throttled: 1}}},
		},
	}
	for _, of := range []struct {
		what      string
		got, want any
	}{
		{"leases", got.Leases, want.Leases}, {"ended", got.Ended, want.Ended}, {"waiters", got.Waiters, want.Waiters},
		{"everything", got, want},
	} {
		if !reflect.DeepEqual(of.got, of.want) {
			t.Errorf("%s\n%+v, want\n%+v", of.what, of.got, of.want)
		}
	}
}

// Each format, today's too, is opened from a file that a program of its time wrote. A change
// that raises the number must add a file of the new format, and keep the others.
func TestEveryFormatHasAFile(t *testing.T) {
	for n := 1; n <= format; n++ {
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
