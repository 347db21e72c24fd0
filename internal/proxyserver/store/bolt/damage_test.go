package bolt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/record"
)

// foreign returns a bbolt file that edit has filled.
func foreign(t *testing.T, edit func(tx *bolt.Tx) error) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, _, err := open(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(edit), db.Close()); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// grown returns the file of a store of many pages, and the content. After many transactions
// the file has older copies of its pages, too.
func grown(t testing.TB) ([]byte, pool.Snapshot) {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(b store.Batch) {
		t.Helper()
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
	}
	lease := func(i int, g uint64) pool.Lease {
		return pool.Lease{Name: fmt.Sprintf("n-%03d", i), Type: "t", Generation: g, Owner: fmt.Sprintf("owner-%d", g), Ask: pool.Ask{Count: 1}, TTL: time.Hour}
	}
	var g uint64
	for round := range 4 {
		b := store.Batch{Clock: time.Duration(round)}
		for i := range 150 {
			g++
			b.Changes = append(b.Changes,
				pool.Change{Kind: pool.Granted, Leases: []pool.Lease{lease(i, g)}},
				pool.Change{Kind: pool.Remembered, Ended: pool.Ended{ID: fmt.Sprintf("id-%d", g), Until: time.Duration(g)}})
		}
		b.Generation = g
		commit(b)
	}
	for i := range 20 {
		g++
		commit(store.Batch{Clock: time.Duration(10 + i), Generation: g, Changes: []pool.Change{
			{Kind: pool.Granted, Leases: []pool.Lease{lease(i*7, g)}},
			{Kind: pool.Done, Lease: pool.Lease{Name: fmt.Sprintf("n-%03d", i*7+1)}},
			{Kind: pool.Forgotten, Ended: pool.Ended{ID: fmt.Sprintf("id-%d", i+1), Until: time.Duration(i + 1)}},
		}})
	}
	snap, err := s.Load()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return read(t, filepath.Join(dir, File)), snap
}

// Damage is refused with an error that says so, unless it hit nothing that counts: then the
// store has its old content. Other content is never served.
func TestRandomDamage(t *testing.T) {
	whole, want := grown(t)
	page := os.Getpagesize()
	if len(whole) < 20*page {
		t.Fatalf("the store has %d bytes: too few pages for this test", len(whole))
	}
	damages := []struct {
		name string
		do   func(data []byte, r *rand.Rand) []byte
	}{
		{"bit", func(data []byte, r *rand.Rand) []byte { data[r.IntN(len(data))] ^= 1 << r.IntN(8); return data }},
		{"bit in a head of a page", func(data []byte, r *rand.Rand) []byte {
			data[r.IntN(len(data)/page)*page+r.IntN(80)] ^= 1 << r.IntN(8)
			return data
		}},
		{"bytes", func(data []byte, r *rand.Rand) []byte {
			at := r.IntN(len(data) - 16)
			for i := range 1 + r.IntN(16) {
				data[at+i] = byte(r.Uint32())
			}
			return data
		}},
		{"zeros", func(data []byte, r *rand.Rand) []byte { clear(data[r.IntN(len(data)/page)*page:][:page]); return data }},
		{"cut", func(data []byte, r *rand.Rand) []byte { return data[:r.IntN(len(data))] }},
		{"page of another", func(data []byte, r *rand.Rand) []byte {
			from, to := r.IntN(len(data)/page)*page, r.IntN(len(data)/page)*page
			copy(data[to:to+page], data[from:from+page])
			return data
		}},
		{"older page in its place", func(data []byte, r *rand.Rand) []byte {
			from, to := r.IntN(len(data)/page)*page, r.IntN(len(data)/page)*page
			copy(data[to+8:to+page], data[from+8:from+page]) // all but its number
			return data
		}},
	}
	refused, opened := 0, 0
	for _, d := range damages {
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 1))
			data := d.do(slices.Clone(whole), r)
			dir := t.TempDir()
			path := filepath.Join(dir, File)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir)
			if err != nil {
				refused++
				if !errors.Is(err, store.ErrDamaged) && !strings.Contains(err.Error(), "format") || !strings.Contains(err.Error(), path) || strings.ContainsAny(err.Error(), "\n") {
					t.Errorf("%s, seed %d: error %v", d.name, seed, err)
				}
				if !slices.Equal(read(t, path), data) {
					t.Errorf("%s, seed %d: the file was changed", d.name, seed)
				}
				continue
			}
			opened++
			if got, err := s.Load(); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, seed %d: it opened, and holds something else (%v)", d.name, seed, err)
			}
			if err := errors.Join(s.Commit(store.Batch{Clock: 1}), s.Close()); err != nil {
				t.Errorf("%s, seed %d: %v", d.name, seed, err)
			}
		}
	}
	if t.Logf("%d refused, %d opened", refused, opened); refused < 50 || opened < 50 {
		t.Errorf("%d were refused, %d opened: the damage is of one kind only", refused, opened)
	}
}

// A file that is not a complete store of ours is refused, and stays as it is. The error says
// what is wrong, and where.
func TestDamagedStore(t *testing.T) {
	good := t.TempDir()
	st := mustOpen(t, good)
	granted := pool.Change{Kind: pool.Granted, Leases: []pool.Lease{{Name: "q-0", Type: "q", Owner: "somebody", Generation: 1}}}
	if err := errors.Join(st.Commit(store.Batch{Changes: []pool.Change{granted}}), st.Close()); err != nil {
		t.Fatal(err)
	}
	whole := read(t, filepath.Join(good, File))
	// edited makes a store with one lease, and lets edit change it without the counts.
	edited := func(edit func(b *bolt.Bucket, meta *metaRecord) error) []byte {
		return foreign(t, func(tx *bolt.Tx) error {
			if err := initialize(tx); err != nil {
				return err
			}
			b := tx.Bucket(bucket)
			meta, err := decodeMeta(b.Get(metaKey))
			if err != nil {
				return err
			}
			table := &table{b, meta}
			err = errors.Join(record.Write(table, &granted), edit(table.bucket, &table.meta))
			return errors.Join(err, table.finish(tx))
		})
	}
	key := []byte("lq-0")
	meta := func(value []byte) []byte {
		return foreign(t, func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket(bucket)
			if err != nil || value == nil {
				return err
			}
			return b.Put(metaKey, value)
		})
	}
	zeroed := slices.Clone(whole)
	clear(zeroed[2*os.Getpagesize():])
	half := slices.Clone(whole)
	clear(half[:os.Getpagesize()])
	outdated, err := json.Marshal(metaRecord{Format: format})
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "it is empty"},
		{"text", []byte(strings.Repeat("not a database\n", 1000)), "no file of ours"},
		{"short text", []byte("x"), "no file of ours"},
		{"half a page", whole[:2000], "no file of ours"},
		{"two pages", whole[:2*os.Getpagesize()], "bytes are there"},
		{"pages of zeros", zeroed, "it is damaged: page "},
		{"one of two first pages", half, "page 0"},
		{"changed owner", []byte(strings.ReplaceAll(string(whole), "somebody", "sameb0dy")), `bucket "leasectl": key "lq-0": its checksum`},
		{"another program's", foreign(t, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("x")); return err }), "another program's"},
		{"another program's, too", edited(func(b *bolt.Bucket, _ *metaRecord) error {
			_, err := b.Tx().CreateBucket([]byte("x"))
			return err
		}), "another program's"},
		{"no meta", meta(nil), `key "m" is not there`},
		{"meta not ours", meta([]byte("x")), `key "m" is not there, or is changed`},
		{"newer format", meta(seal(metaKey, []byte(`{"format":2}`))), "it has format 2, and this program knows format 1: use the program that made it"},
		{"newer format, not sealed", meta([]byte(`{"format":7}`)), "it has format 7"},
		{"meta not sealed", meta(outdated), "key \"m\": its checksum"},
		{"meta of another transaction", meta(seal(metaKey, outdated)), "is of transaction 0, and the file of transaction"},
		{"unknown key", edited(func(b *bolt.Bucket, m *metaRecord) error {
			m.Records++
			return b.Put([]byte("x"), seal([]byte("x"), nil))
		}), `key "x": it is not known`},
		{"lease not JSON", edited(func(b *bolt.Bucket, _ *metaRecord) error { return b.Put(key, seal(key, []byte("x"))) }), `key "lq-0": invalid`},
		{"not sealed", edited(func(b *bolt.Bucket, _ *metaRecord) error { return b.Put(key, nil) }), `key "lq-0": 0 bytes`},
		{"lost", edited(func(b *bolt.Bucket, _ *metaRecord) error { return b.Delete(key) }), "it has 0 records, and should have 1"},
		{"replaced", edited(func(b *bolt.Bucket, _ *metaRecord) error {
			return b.Put(key, seal(key, []byte(`{"type":"q","generation":2}`)))
		}), "some of its 1 records are older"},
		{"empty id", edited(func(b *bolt.Bucket, _ *metaRecord) error {
			return b.Put([]byte("e12345678"), seal([]byte("e12345678"), nil))
		}), "it is not known"},
		{"bucket in it", edited(func(b *bolt.Bucket, _ *metaRecord) error { _, err := b.CreateBucket([]byte("y")); return err }), `key "y" is a bucket`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, File)
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(dir)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if !slices.Equal(read(t, path), c.data) {
				t.Error("the file was changed")
			}
		})
	}
}

// badDisk is a file with a part that cannot be read.
type badDisk struct {
	*bytes.Reader
	from, to int64
}

func (d badDisk) ReadAt(p []byte, at int64) (int, error) {
	if at < d.to && at+int64(len(p)) > d.from {
		return 0, &fs.PathError{Op: "read", Path: "leases.db", Err: syscall.EIO}
	}
	return d.Reader.ReadAt(p, at)
}

// A file that the disk cannot read may be undamaged: the error does not ask for a backup in
// its place.
func TestUnreadPages(t *testing.T) {
	data, _ := grown(t)
	size := int64(os.Getpagesize())
	for page := range int64(len(data)) / size {
		disk := badDisk{bytes.NewReader(data), page * size, (page + 1) * size}
		_, err := loadFrom(disk, int64(len(data)))
		if err == nil {
			continue // it is not in use
		}
		said := (&Store{path: "leases.db"}).explain(store.ErrOpen, err).Error()
		if errors.Is(err, store.ErrDamaged) || !errors.Is(err, syscall.EIO) || !strings.Contains(said, fmt.Sprintf("it cannot be read: page %d:", page)) {
			t.Errorf("page %d: %s", page, said)
		}
	}
}

// A store that is removed, moved, replaced or cut short under a server fails the
// next check and the next commit. A commit during which it is cut short causes no SIGBUS.
func TestGoneUnderAServer(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(dir, path string) error
		want error
	}{
		{"removed", func(_, path string) error { return os.Remove(path) }, store.ErrGone},
		{"directory moved", func(dir, _ string) error { return os.Rename(dir, dir+".old") }, store.ErrGone},
		{"replaced", func(dir, path string) error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			s, err := Open(dir)
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			return err
		}, store.ErrGone},
		{"cut", func(_, path string) error { return os.Truncate(path, 5000) }, store.ErrDamaged},
		{"emptied", func(_, path string) error { return os.Truncate(path, 0) }, store.ErrDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s := mustOpen(t, dir)
			b := store.Batch{Changes: []pool.Change{{Kind: pool.Remembered, Ended: pool.Ended{ID: "x"}}}}
			if err := errors.Join(s.Commit(b), s.Check()); err != nil {
				t.Fatal(err)
			}
			if err := c.do(dir, s.path); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{"check": s.Check(), "commit": s.Commit(b)} {
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), s.path) {
					t.Errorf("%s: error %v, want %v", what, err, c.want)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
