package bolt

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

func mustOpen(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// kept returns the content of a store that is opened again after these commits.
func kept(t *testing.T, commits ...[]pool.Change) pool.Snapshot {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	for _, changes := range commits {
		if err := s.Commit(store.Batch{Clock: 4, Generation: 9, Changes: changes}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	snap, err := mustOpen(t, dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// A store that is opened again has what was committed, and nothing else: every field of a
// lease that outlives a server, ids, the clock and the generation.
func TestCommitAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	s := mustOpen(t, dir)
	if snap, err := s.Load(); err != nil || !reflect.DeepEqual(snap, pool.Snapshot{}) {
		t.Errorf("a new store holds %+v, %v", snap, err)
	}
	full := pool.Lease{
		Name: "n", Type: "t", Generation: 7, Owner: "red\x00me", RequestID: "r", Ask: pool.Ask{Count: 2}, Units: 1, TTL: time.Hour,
		Granted: 3, ReleaseAt: 4, Provisional: true, Broken: "why", Expires: 5,
	}
	plain := pool.Lease{Name: "p", Type: "t", Generation: 8, Ask: pool.Ask{Count: 2}, Units: 1, TTL: time.Minute, Granted: 3, Expires: 6}
	ended, forgotten := pool.Ended{ID: "over", Until: 9, Removed: "why"}, pool.Ended{ID: "long over", Until: 8}
	for _, b := range []store.Batch{
		{Clock: 3, Generation: 9, Changes: []pool.Change{
			{Kind: pool.Granted, Leases: []pool.Lease{{Name: "n", Type: "t", Generation: 7}, plain}},
			{Kind: pool.Granted, Leases: []pool.Lease{{Name: "gone", Type: "t", Generation: 9}}},
			{Kind: pool.Remembered, Ended: forgotten},
			{Kind: pool.Paused, Pause: &pool.Pause{Type: "t", Reason: "why", Since: 2}},
			{Kind: pool.Paused, Pause: &pool.Pause{Type: "resumed", Reason: "why", Since: 2}},
		}},
		{Clock: 4, Generation: 9, Changes: []pool.Change{
			{Kind: pool.Broken, Lease: full},
			{Kind: pool.Done, Lease: pool.Lease{Name: "gone"}},
			{Kind: pool.Remembered, Ended: ended},
			{Kind: pool.Forgotten, Ended: forgotten},
			{Kind: pool.Dropped, ID: "waiter"},
			{Kind: pool.Paused, Pause: &pool.Pause{Type: "t", Reason: "why else", Since: 2}},
			{Kind: pool.Resumed, Pause: &pool.Pause{Type: "resumed"}},
		}},
	} {
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("close, twice: %v", err)
	}

	snap, err := mustOpen(t, dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(snap.Leases, func(a, b pool.Lease) int { return cmp.Compare(a.Generation, b.Generation) })
	plain.Expires = 0 // a restart gives it its full TTL again
	want := pool.Snapshot{
		Clock: 4, Generation: 9, Leases: []pool.Lease{full, plain}, Ended: []pool.Ended{ended},
		Pauses: []pool.Pause{{Type: "t", Reason: "why else", Since: 2}},
	}
	if !reflect.DeepEqual(snap, want) {
		t.Errorf("loaded\n%+v, want\n%+v", snap, want)
	}
}

// A commit that fails says so, and leaves what was durable.
func TestCommitFails(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	s.db.Close()
	err := s.Commit(store.Batch{Changes: []pool.Change{{Kind: pool.Remembered, Ended: pool.Ended{ID: "x"}}}})
	if err == nil || !strings.Contains(err.Error(), "commit to store "+filepath.Join(dir, File)) {
		t.Errorf("error %v", err)
	}
	if snap, err := mustOpen(t, dir).Load(); err != nil || len(snap.Ended) != 0 {
		t.Errorf("the store holds %+v, %v", snap, err)
	}
}

func TestTwoServers(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	if _, err := Open(dir); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v, want ErrInUse", err)
	}
	if err := s.Commit(store.Batch{Clock: 1}); err != nil {
		t.Errorf("the first server: %v", err)
	}
}

// Servers that make the same store at the same time make one.
func TestCreateRace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, File)
	made := make(chan os.FileInfo, 8)
	for range cap(made) {
		go func() {
			if err := create(dir, path, syncDir); err != nil {
				t.Error(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Error(err)
			}
			made <- info
		}()
	}
	last := <-made
	for range cap(made) - 1 {
		if info := <-made; !os.SameFile(info, last) {
			t.Error("the store of one was replaced by another's")
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("the directory holds %v", files)
	}
}

// A power cut after the first commits does not remove a new directory: whatever entry was made
// in a directory, that directory is synced; also by the next start, since the one that made the entry
// may have been killed before it synced.
func TestNewDirectoriesAreSynced(t *testing.T) {
	top := t.TempDir()
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		return nil
	}
	a := filepath.Join(top, "a")
	b, dir := filepath.Join(a, "b"), filepath.Join(a, "b", "c")
	starts := [][]string{{filepath.Dir(top), top, a, b, dir}, {b, dir}}
	for _, want := range starts {
		synced = nil
		if err := create(dir, filepath.Join(dir, File), sync); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			t.Fatalf("made was %v, %v", info, err)
		}
		if !slices.Equal(synced, want) {
			t.Errorf("synced were %q, want %q", synced, want)
		}
	}
	unreadable := func(dir string) error { return &fs.PathError{Op: "open", Path: dir, Err: syscall.EACCES} }
	if err := create(dir, filepath.Join(dir, File), unreadable); err != nil {
		t.Errorf("a start where nothing is made, and a directory may not be read: %v", err)
	}
}

func TestDataIsNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil {
		t.Error("a file was taken for the data directory")
	}
}

// Deleting a key that does not exist leaves the records before and after it.
func TestDeleteOfNothing(t *testing.T) {
	lease := func(name string) pool.Lease {
		return pool.Lease{Name: name, Type: "t", Generation: 1, Ask: pool.Ask{Count: 1}, Units: 1, TTL: 1}
	}
	snap := kept(t,
		[]pool.Change{{Kind: pool.Granted, Leases: []pool.Lease{lease("b"), lease("d")}}},
		[]pool.Change{{Kind: pool.Done, Lease: lease("a")}, {Kind: pool.Done, Lease: lease("c")}, {Kind: pool.Done, Lease: lease("e")}},
	)
	if want := []pool.Lease{lease("b"), lease("d")}; !reflect.DeepEqual(snap.Leases, want) {
		t.Errorf("loaded %+v, want %+v", snap.Leases, want)
	}
}

// A commit of many leases takes about as long in any order of their names. (bbolt took
// 30 times as long for these.)
func TestCommitOfManyLeases(t *testing.T) {
	const n = 30_000
	var leases []pool.Lease
	for i := range n {
		leases = append(leases, pool.Lease{Name: fmt.Sprintf("name-%05d", i), Type: "t", Generation: uint64(i + 1), TTL: time.Hour, RequestID: "r", Units: 1})
	}
	commit := func() time.Duration {
		s := mustOpen(t, t.TempDir())
		defer s.Close()
		before := slices.Clone(leases)
		begin := time.Now()
		err := s.Commit(store.Batch{Changes: []pool.Change{{Kind: pool.Granted, ID: "r", Leases: leases}}})
		took := time.Since(begin)
		if err != nil {
			t.Fatal(err)
		}
		if snap, err := s.Load(); err != nil || len(snap.Leases) != n || !slices.Equal(leases, before) {
			t.Fatalf("%d leases, %v", len(snap.Leases), err)
		}
		return took
	}
	ordered := commit()
	slices.Reverse(leases)
	for range 3 { // a disk may be slow once
		reversed := commit()
		if reversed <= 10*ordered {
			return
		}
		t.Logf("in the order of their keys it took %v, reversed %v", ordered, reversed)
	}
	t.Error("it is slower in another order each time")
}

// A commit of very many changes is divided, between steps if it can be, and never between changes that belong together.
func TestDividedCommit(t *testing.T) {
	changes := make([]pool.Change, 2*mostChanges+10)
	for i := range changes {
		changes[i] = pool.Change{Kind: pool.Remembered, Ended: pool.Ended{ID: fmt.Sprint(i), Until: 1}}
	}
	changes[mostChanges+5].Kind = pool.Forgotten // begins what does not belong to those before it
	for _, c := range []struct {
		steps []int
		want  string
	}{
		{nil, "5005 10005 10010"},
		{[]int{10}, "10 5010 10010"},
		{[]int{10, mostChanges, mostChanges + 1}, "5000 5001 10001 10010"},
	} {
		var got []string
		changes[10001].Kind, changes[10005].Kind, changes[5010].Kind = pool.Forgotten, pool.Forgotten, pool.Forgotten
		for to := 0; to < len(changes); {
			to = endOfPart(changes, c.steps, to)
			got = append(got, fmt.Sprint(to))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("with steps %v: parts end at %s, want %s", c.steps, text, c.want)
		}
	}
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range changes {
		changes[i].Kind = pool.Remembered
	}
	if err := s.Commit(store.Batch{Changes: changes, Clock: 7, Generation: 8}); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.Load(); err != nil || len(snap.Ended) != len(changes) || snap.Clock != 7 || snap.Generation != 8 {
		t.Errorf("%d of %d are there at %v, %d: %v", len(snap.Ended), len(changes), snap.Clock, snap.Generation, err)
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
