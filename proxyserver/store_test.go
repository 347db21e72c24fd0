package proxyserver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func durable(dir string, n int) Options {
	return Options{Pools: []pool.Config{quota(n)}, Data: dir}
}

// After a stop and a start the same leases are held by the same owners under
// the same request ids, ended ids have ended, and generations go on.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	p := start(t, durable(dir, 4))
	a := p.granted("type=q&request_id=a&owner=me&count=2&ttl=5m")
	p.acquire("type=q")
	p.acquire("type=q&request_id=b")
	p.release(`{"request_ids":["b","unseen"]}`)
	before := p.pools()[0].Leases
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if d, f := mode(dir), mode(filepath.Join(dir, "leases.db")); d != 0o700 || f != 0o600 {
		t.Errorf("the directory has mode %o, the file %o", d, f)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("the directory holds %v", files)
	}

	p = start(t, durable(dir, 4))
	after := p.pools()[0].Leases
	if len(after) != 3 || len(before) != 3 {
		t.Fatalf("held are\n%+v\nand were\n%+v", after, before)
	}
	for i := range after {
		if after[i].Lease != before[i].Lease || after[i].Owner != before[i].Owner || after[i].Provisional != before[i].Provisional {
			t.Errorf("lease %+v was %+v", after[i], before[i])
		}
	}
	if again := p.granted("type=q&request_id=a&owner=me&count=2"); !slices.Equal(again.Leases, a.Leases) || again.TTL != a.TTL {
		t.Errorf("request a has %+v, and had %+v", again, a)
	}
	for _, id := range []string{"b", "unseen"} {
		if r := p.acquire("type=q&request_id=" + id); r.status != 410 {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
	}
	if c := p.granted("type=q&request_id=c"); c.Leases[0].Generation <= before[2].Generation {
		t.Errorf("generation %d after %d", c.Leases[0].Generation, before[2].Generation)
	}
	if h := decode[leaseapi.Health](t, p.do("GET", "/healthz", ""), 200); !h.Durable {
		t.Errorf("health %+v", h)
	}
}

// The lease clock stands still while the server is down: renewable leases have
// their full TTL again, delayed ones what remained, to the 5 s at which the
// clock is saved.
func TestClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, crashed := t.TempDir(), t.TempDir()
		p := start(t, durable(dir, 2))
		a := p.granted("type=q&request_id=a&ttl=5m").Leases[0]
		p.do("POST", "/lease/renew", `{"leases":[{"name":"q-0","generation":`+num(a.Generation)+`}]}`)
		p.granted("type=q&request_id=b")
		p.release(`{"names":["q-1"],"delay":"20m"}`)
		time.Sleep(4*time.Minute + 58*time.Second)
		synctest.Wait()
		// What a KILL now would leave.
		data, err := os.ReadFile(filepath.Join(dir, storeFile))
		if err == nil {
			err = os.WriteFile(filepath.Join(crashed, storeFile), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)

		remaining := func(dir string) (renewable, delayed time.Duration) {
			p := start(t, durable(dir, 2))
			leases := p.pools()[0].Leases
			if len(leases) != 2 {
				t.Fatalf("leases %+v", leases)
			}
			return time.Duration(leases[0].ExpiresIn), time.Duration(leases[1].ExpiresIn)
		}
		if a, b := remaining(dir); a != 5*time.Minute || b != 15*time.Minute+2*time.Second {
			t.Errorf("after a stop %v and %v remain", a, b)
		}
		if a, b := remaining(crashed); a != 5*time.Minute || b < 15*time.Minute+2*time.Second || b > 15*time.Minute+2*time.Second+clockEvery {
			t.Errorf("after a crash %v and %v remain", a, b)
		}
	})
}

// Nothing is written while nothing is held.
func TestIdleServerWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t.TempDir(), 1))
		p.do("GET", "/pools", "")
		synctest.Wait()
		writes := func() int64 {
			stats := p.server.store.db.Stats()
			return stats.TxStats.GetWrite()
		}
		before := writes()
		time.Sleep(time.Hour)
		synctest.Wait()
		if after := writes(); after != before {
			t.Errorf("%d writes in an hour without leases", after-before)
		}
	})
}

// An id that is forgotten leaves the store.
func TestForgottenLeavesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t.TempDir(), 1))
		p.release(`{"request_ids":["a","b"]}`)
		keys := func() (n int) {
			p.server.store.db.View(func(tx *bolt.Tx) error {
				n = tx.Bucket(bucket).Inspect().KeyN
				return nil
			})
			return n
		}
		if n := keys(); n != 3 {
			t.Errorf("%d keys, want two ids and the meta record", n)
		}
		time.Sleep(leaseapi.EndedKept)
		synctest.Wait()
		if n := keys(); n != 1 {
			t.Errorf("%d keys after an hour, want 1", n)
		}
	})
}

func TestMemoryGenerationsDoNotRepeat(t *testing.T) {
	var last uint64
	for range 3 {
		p := start(t, Options{Pools: []pool.Config{quota(2)}})
		g := p.granted("type=q&request_id=a&count=2").Leases
		if g[0].Generation <= last {
			t.Errorf("generation %d after %d", g[0].Generation, last)
		}
		last = g[1].Generation
		p.stop()
	}
}

// A commit that fails stops all changes; nobody is told what is not durable.
func TestCommitFails(t *testing.T) {
	dir := t.TempDir()
	p := start(t, durable(dir, 2))
	p.acquire("type=q&owner=kept&count=2")
	waits := p.later(t.Context(), "type=q&request_id=w")
	p.waitingFor(1)
	waitsOn := p.later(t.Context(), "type=q")
	p.waitingFor(2)
	p.server.store.db.Close() // every later transaction fails

	unavailable := func(what string, r reply) {
		t.Helper()
		if pr := decode[leaseapi.Problem](t, r, 503); pr.Type != leaseapi.ProblemUnavailable {
			t.Errorf("%s: %+v", what, pr)
		}
	}
	unavailable("the release that failed", p.release(`{"names":["q-0"]}`))
	unavailable("the waiter that it served", <-waits)
	unavailable("the waiter behind that", <-waitsOn)
	unavailable("acquire", p.acquire("type=q&request_id=x"))
	unavailable("release", p.release(`{"names":["q-1"]}`))
	unavailable("pools", p.do("GET", "/pools", ""))
	unavailable("request", p.do("GET", "/lease/requests/w", ""))
	if r := p.do("GET", "/healthz", ""); r.status != 200 {
		t.Errorf("health: %d %s", r.status, r.body)
	}
	if err := p.stop(); !errors.Is(err, errFailed) {
		t.Errorf("Serve: %v", err)
	}

	p = start(t, durable(dir, 2))
	if pools := p.pools(); pools[0].InUse != 2 || pools[0].Leases[0].Owner != "kept" {
		t.Errorf("after a restart: %+v", pools)
	}
}

func TestTwoServers(t *testing.T) {
	dir := t.TempDir()
	p := start(t, durable(dir, 1))
	begin := time.Now()
	_, err := New(durable(dir, 1))
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v, want ErrInUse", err)
	}
	if took := time.Since(begin); took > 20*lockTime {
		t.Errorf("it took %v", took)
	}
	if r := p.acquire("type=q"); r.status != 200 {
		t.Errorf("the first server: %d %s", r.status, r.body)
	}
}

// Servers that make the same store at the same time make one.
func TestCreateRace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, storeFile)
	made := make(chan os.FileInfo, 8)
	for range cap(made) {
		go func() {
			if err := create(dir, path); err != nil {
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

// A file that is not a whole store of ours is an error, and stays as it is.
func TestDamagedStore(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good")
	p := start(t, durable(good, 1))
	p.acquire("type=q")
	p.stop()
	whole, err := os.ReadFile(filepath.Join(good, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	foreign := func(edit func(tx *bolt.Tx) error) []byte {
		path := filepath.Join(t.TempDir(), "db")
		db, err := bolt.Open(path, 0o600, boltOptions())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(edit), db.Close()); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	ours := func(key, value string) []byte {
		return foreign(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket(bucket)
			if err != nil {
				return err
			}
			return errors.Join(put(b, []byte{keyMeta}, metaRecord{Format: 1}), b.Put([]byte(key), []byte(value)))
		})
	}
	zeroed := slices.Clone(whole)
	clear(zeroed[2*os.Getpagesize():])

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
		{"pages of zeros", zeroed, "damaged"},
		{"another program's", foreign(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("x")); return err }), "another program's"},
		{"no meta", foreign(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(bucket); return err }), "format is not known"},
		{"newer format", ours("m", `{"format":2}`), "format 2"},
		{"unknown key", ours("x", ""), `key "x" is not known`},
		{"lease not JSON", ours("lq-0", "x"), `lease "q-0"`},
		{"lease without generation", ours("lq-0", "{}"), "incomplete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, storeFile)
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := New(durable(dir, 1))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if after, _ := os.ReadFile(path); !slices.Equal(after, c.data) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestDataIsNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(durable(path, 1)); err == nil {
		t.Error("a file was taken for the data directory")
	}
}

func TestBadPoolsLeaveTheStoreClosed(t *testing.T) {
	dir := t.TempDir()
	opts := durable(dir, 1)
	opts.Pools = append(opts.Pools, opts.Pools[0])
	if _, err := New(opts); err == nil {
		t.Fatal("two pools of one type were taken")
	}
	s, err := New(durable(dir, 1)) // fails if the store is still locked
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
