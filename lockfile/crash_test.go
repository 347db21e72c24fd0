package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// records are the records that the commands make, one after the other in any order.
var records = []Record{
	{},
	{State: HandleQueued, RequestID: "r1"},
	held("r1", "a", "b"),
	{State: HandleQueued, RequestID: "r2", Replaces: []Lease{{Name: "a", Generation: 1}, {Name: "b", Generation: 2}}, ReplacesOf: "r1"},
	held("r2", "b", "c"),
	held("r3"),
	fullRecord,
	{State: HandleReleasing, RequestID: "r4"},
	{State: HandleReleasing, RequestID: "r1", Leases: []Lease{{Name: "a", Generation: 1}, {Name: "b", Generation: 2}}},
}

// mostSteps is how many steps the longest change has.
const mostSteps = 5

// killedAfter carries out the first steps of a change and no more, as a killed process does. It
// reports whether the change has that many steps.
func killedAfter(t rapid.TB, h Handle, to Record, steps int) bool {
	tx := &Tx{handle: h}
	if err := tx.read(); err != nil {
		t.Fatal(err)
	}
	tx.Record = to
	record, err := tx.encode()
	if err != nil {
		t.Fatal(err)
	}
	changes, err := tx.steps(record)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) > mostSteps {
		t.Fatalf("a change of %d steps", len(changes))
	}
	if steps > len(changes) {
		return false
	}
	if err := apply(changes[:steps]...); err != nil {
		t.Fatal(err)
	}
	want := tx.onDisk.after(h, changes[:steps])
	if got, err := h.loadLocked(); err != nil || !got.same(want) || (got.text == nil) != (want.text == nil) || !slices.Equal(got.names, want.names) {
		t.Fatalf("after %d steps the disk has %+v, %v, and the plan %+v", steps, got, err, want)
	}
	return true
}

// readOrNone is Read, with the zero Record for no handle.
func readOrNone(t rapid.TB, h Handle) Record {
	r, err := h.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return r
}

// Killed after any step of a change between any two records, a handle reads as the old record
// or the new one, and the next change finishes the job.
func TestKilledBetweenSteps(t *testing.T) {
	bare := Record{State: HandleHeld, Leases: []Lease{{Name: "a"}, {Name: "b"}}}
	for i, from := range append(records, bare) {
		for j, to := range records {
			for steps := 0; ; steps++ {
				h := handleIn(t)
				if reflect.DeepEqual(from, bare) {
					write(t, h.path, "a\nb\n")
				} else {
					ok(t, h.Update(t.Context(), set(from)))
				}
				if !killedAfter(t, h, to, steps) {
					break
				}
				got := readOrNone(t, h)
				if !reflect.DeepEqual(got, from) && !reflect.DeepEqual(got, to) {
					t.Fatalf("from %d to %d, killed after step %d: it reads as %+v", i, j, steps, got)
				}
				ok(t, h.Update(t.Context(), func(*Tx) error { return nil }))
				wantRecord(t, h, got)
				if _, err := os.Lstat(h.nextPath()); err == nil {
					t.Errorf("from %d to %d, killed after step %d: the change was not finished", i, j, steps)
				}
				ok(t, h.Update(t.Context(), set(held("last", "z"))))
				wantRecord(t, h, held("last", "z"))
				if left := ls(t, filepath.Dir(h.path)); left != "handle handle.json handle.lock" {
					t.Errorf("from %d to %d, killed after step %d: %s is left", i, j, steps, left)
				}
				ok(t, h.Update(t.Context(), set(Record{})))
				if left := ls(t, filepath.Dir(h.path)); left != "" {
					t.Errorf("from %d to %d, killed after step %d: %s is left", i, j, steps, left)
				}
			}
		}
	}
}

// The same after any number of killed changes in a row, with scripts that copy and remove the
// names file in between.
func TestKilledAgainAndAgain(t *testing.T) {
	dir := t.TempDir()
	rounds := 0
	rapid.Check(t, func(t *rapid.T) {
		rounds++
		h := Handle{path: filepath.Join(dir, strconv.Itoa(rounds))}
		var is Record
		copies := 0
		t.Repeat(map[string]func(*rapid.T){
			"kill": func(t *rapid.T) {
				to := rapid.SampledFrom(records).Draw(t, "to")
				killedAfter(t, h, to, rapid.IntRange(0, mostSteps).Draw(t, "steps"))
				got := readOrNone(t, h)
				if !reflect.DeepEqual(got, is) && !reflect.DeepEqual(got, to) {
					t.Fatalf("it reads as %+v\nwas %+v\nto be %+v", got, is, to)
				}
				is = got
			},
			"update": func(t *rapid.T) {
				is = rapid.SampledFrom(records).Draw(t, "to")
				if err := h.Update(context.Background(), set(is)); err != nil {
					t.Fatal(err)
				}
				if got := readOrNone(t, h); !reflect.DeepEqual(got, is) {
					t.Fatalf("it reads as %+v\nwant %+v", got, is)
				}
			},
			"copy": func(t *rapid.T) {
				copies++
				name := fmt.Sprintf("of-another-handle-%d", copies)
				if err := os.WriteFile(h.path, []byte(name+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				is = readOrNone(t, h)
				if !reflect.DeepEqual(is, Record{State: HandleHeld, Leases: []Lease{{Name: name}}}) {
					t.Fatalf("with other names it reads as %+v", is)
				}
			},
			"remove": func(t *rapid.T) {
				os.Remove(h.path)
				is = readOrNone(t, h)
			},
		})
	})
}

// churn is an endless sequence of records, as acquires, reacquires and
// releases make them.
func churn(k int) Record {
	id := fmt.Sprintf("r%d", k/6)
	was, now := held(id+"-first", id+"-a", id+"-b"), held(id+"-second", id+"-c")
	again := Record{State: HandleQueued, RequestID: now.RequestID, Replaces: was.Leases, ReplacesOf: was.RequestID}
	releasing := now
	releasing.State = HandleReleasing
	return []Record{{State: HandleQueued, RequestID: was.RequestID}, was, again, now, releasing, {}}[k%6]
}

// childChurn continues the sequence, from args[1], until it is killed. It prints the number of
// the record that it wrote last.
func childChurn(args []string) error {
	k, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for ; ; k++ {
		if err := (Handle{path: args[0]}).Update(context.Background(), set(churn(k))); err != nil {
			return err
		}
		fmt.Println(k)
	}
}

// A process that is killed at any instant leaves the record that it wrote last, or the one that
// it was writing, and a free lock.
func TestKilledAnywhere(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	h := handleIn(t)
	k := 0
	for range rounds {
		c := startChild(t, os.Geteuid(), "churn", h.path, strconv.Itoa(k))
		last := c.line()
		// Any instant will do; this one is somewhere in the first dozen changes.
		time.Sleep(time.Duration(random.IntN(5000)) * time.Microsecond)
		ok(t, c.Process.Kill())
		for line := c.line(); line != ""; line = c.line() {
			last = line
		}
		c.Wait()
		var err error
		if k, err = strconv.Atoi(last); err != nil {
			t.Fatalf("child: %s", last)
		}
		got := readOrNone(t, h)
		if !reflect.DeepEqual(got, churn(k)) {
			k++
		}
		if !reflect.DeepEqual(got, churn(k)) {
			t.Fatalf("it reads as %+v\nwas %+v\nto be %+v", got, churn(k-1), churn(k))
		}
		ok(t, TryLock(h.lockPath(), func() error { return nil }))
		k++
	}
}

// Read, which takes no lock, sees only records that were written.
func TestReadWhileUpdated(t *testing.T) {
	h := handleIn(t)
	written := map[string]Record{"": {}}
	var ks []int
	for k := range 6 * 60 {
		if r := churn(k); r.State != "" { // see load about handles that come and go
			ks = append(ks, k)
			written[string(r.State)+r.RequestID] = r
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var changes atomic.Int64 // that readers saw
	for range 2 {
		readers.Go(func() {
			last := ""
			for ctx.Err() == nil {
				got, err := h.Read()
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
					return
				}
				is := string(got.State) + got.RequestID
				if is != last {
					last = is
					changes.Add(1)
				}
				if want := written[is]; !reflect.DeepEqual(got, want) {
					t.Errorf("it reads as %+v\nwant %+v", got, want)
					return
				}
			}
		})
	}
	for i := 0; changes.Load() < 100 && !t.Failed(); i++ {
		ok(t, h.Update(t.Context(), set(churn(ks[i%len(ks)]))))
	}
	cancel()
	readers.Wait()
}
