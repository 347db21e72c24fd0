package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

func journalIn(t *testing.T) Journal { return Journal(filepath.Join(t.TempDir(), "intents")) }

func begin(t *testing.T, j Journal, id string) *Entry {
	t.Helper()
	e, err := j.Begin(t.Context(), Intent{ID: id, Kind: KindAcquire, Request: id, Handle: "/h", PID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// dead returns the ids of the entries of dead processes, and settles them if settle is set.
func dead(t *testing.T, j Journal, settle bool) (ids []string) {
	t.Helper()
	err := j.SettleDead(t.Context(), func(in Intent) bool {
		ids = append(ids, in.ID)
		return settle
	})
	if err != nil {
		t.Error(err)
	}
	return ids
}

// childJournal begins an entry and holds it until it is killed.
func childJournal(args []string) error {
	e, err := Journal(args[0]).Begin(context.Background(), Intent{ID: args[1], Kind: KindExec})
	if err != nil {
		return err
	}
	fmt.Println("begun")
	runtime.GC() // must not take the entry for garbage
	io.Copy(io.Discard, os.Stdin)
	return e.Leave()
}

// An entry belongs to its process as long as that lives, and to any other process after that.
func TestJournalKnowsTheDead(t *testing.T) {
	j := journalIn(t)
	if got := dead(t, j, true); got != nil {
		t.Errorf("a journal that is not there has %v", got)
	}
	e := begin(t, j, "alive")
	if got := dead(t, j, true); got != nil {
		t.Errorf("the living are handed out: %v", got)
	}
	c := startChild(t, os.Geteuid(), "journal", string(j), "killed")
	if got := c.line(); got != "begun" {
		t.Fatalf("child says %q", got)
	}
	if got := dead(t, j, true); got != nil {
		t.Errorf("the living child is handed out: %v", got)
	}
	c.Process.Kill()
	c.Wait()
	if got := dead(t, j, false); len(got) != 1 || got[0] != "killed" {
		t.Fatalf("after the kill: %v, want [killed]", got)
	}
	if got := dead(t, j, true); len(got) != 1 {
		t.Errorf("an entry that was not settled is gone: %v", got)
	}
	if got := dead(t, j, true); got != nil {
		t.Errorf("settled, and still there: %v", got)
	}
	if err := e.Settle(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(string(j)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// An entry may be begun where a killed process has left a longer one.
func TestJournalOverAnother(t *testing.T) {
	j := journalIn(t)
	long := Intent{ID: "same", Kind: KindAcquire, Handle: "/a/long/path/of/a/handle", Owner: "somebody"}
	for _, in := range []Intent{long, {ID: "same", Kind: KindRelease, Handle: "/h"}, long} {
		e, err := j.Begin(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		e.Leave()
		var got []Intent
		if err := j.SettleDead(t.Context(), func(in Intent) bool { got = append(got, in); return false }); err != nil {
			t.Fatal(err)
		}
		in.Left = true
		if len(got) == 1 && !got[0].Dead.IsZero() {
			in.Dead = got[0].Dead
		}
		if len(got) != 1 || in.Dead.IsZero() || !reflect.DeepEqual(got[0], in) {
			t.Errorf("begun %+v, found %+v", in, got)
		}
	}
}

// An entry that was left can be taken at once; settling an entry that is gone is no error.
func TestJournalLeave(t *testing.T) {
	j := journalIn(t)
	if err := begin(t, j, "left").Leave(); err != nil {
		t.Fatal(err)
	}
	if got := dead(t, j, true); len(got) != 1 {
		t.Errorf("left, and not handed out: %v", got)
	}
	e := begin(t, j, "gone")
	if err := os.Remove(filepath.Join(string(j), "gone.json")); err != nil {
		t.Fatal(err)
	}
	if err := e.Settle(); err != nil {
		t.Error(err)
	}
}

// An entry of a process that died inside Begin was never acted on, and is removed. A file that
// is no entry stays. While one process settles an entry, no other process gets it.
func TestJournalOddFiles(t *testing.T) {
	j := journalIn(t)
	begin(t, j, "whole").Leave()
	for name, text := range map[string]string{
		"empty.json": "",
		"half.json":  `{"format":1,"id":"ha`,
		"begun.json": `{"form`,
		"note.txt":   "not ours",
		"other.json": `{"format":1,"id":"another","kind":"hold"}`,
		"foo.json":   `{"name":"foo"}`,
	} {
		write(t, filepath.Join(string(j), name), text)
	}
	err := j.SettleDead(t.Context(), func(in Intent) bool {
		if in.ID != "whole" {
			t.Errorf("handed out: %+v", in)
		}
		j.SettleDead(t.Context(), func(in Intent) bool {
			t.Errorf("handed out twice: %v", in)
			return true
		})
		return true
	})
	wantError(t, err, "other.json is the entry another under another name")
	wantError(t, err, "foo.json is no entry of the journal")
	if left := ls(t, string(j)); left != "foo.json note.txt other.json" {
		t.Errorf("left: %s", left)
	}
}

// Entries come oldest first, until the context ends.
func TestJournalOrder(t *testing.T) {
	j := journalIn(t)
	for i, id := range []string{"c", "a", "b"} {
		begin(t, j, id).Leave()
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(filepath.Join(string(j), id+".json"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got string
	if err := j.SettleDead(ctx, func(in Intent) bool {
		got += in.ID
		if got == "ca" {
			cancel()
		}
		return true
	}); err != nil {
		t.Error(err)
	}
	if got != "ca" {
		t.Errorf("order %q, want ca and then the end of the context", got)
	}
}

// A symlink in the place of an entry is refused, said, and not followed.
func TestJournalRefusesSymlinks(t *testing.T) {
	j := journalIn(t)
	begin(t, j, "good").Leave()
	target := filepath.Join(t.TempDir(), "target")
	write(t, target, `{"id":"evil"}`)
	if err := os.Symlink(target, filepath.Join(string(j), "evil.json")); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := j.SettleDead(t.Context(), func(in Intent) bool { got = append(got, in.ID); return true })
	if err == nil || len(got) != 1 || got[0] != "good" {
		t.Errorf("got %v, %v; want [good] and an error for the symlink", got, err)
	}
	if _, err := j.Begin(t.Context(), Intent{ID: "evil"}); err == nil {
		t.Error("an entry was begun in the place of a symlink")
	}
	if read(t, target) != `{"id":"evil"}` {
		t.Error("the symlink was followed")
	}
}

// An exec learns that its lease was given back from processes within its command only. Whoever gives the
// lease of a killed one back, or that of an acquire, removes its entry.
func TestOverOfAnExec(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   Kind
		within string
		killed bool
		stands bool
	}{
		{"by others", KindExec, "", false, true},
		{"within another exec", KindExec, "b", false, true},
		{"within its command", KindExec, "a", false, false},
		{"killed", KindExec, "", true, false},
		{"an acquire", KindAcquire, "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			ok(t, os.Chmod(dir, 0o700))
			other := &Entries{StateDir: dir, Within: tt.within}
			e, err := other.Journal().Begin(t.Context(), Intent{ID: "a", Kind: tt.kind, Request: "a", Handle: "/h"})
			ok(t, err)
			if tt.killed {
				ok(t, e.Leave())
			}
			other.Over("a")
			if e.Stands() != tt.stands && !tt.killed {
				t.Errorf("it stands: %t, want %t", e.Stands(), tt.stands)
			}
			if left := ls(t, string(other.Journal())) != ""; left != tt.stands {
				t.Errorf("the entry is there: %t, want %t", left, tt.stands)
			}
			if other.Stands("a") {
				t.Error("to the process that gave the lease back, its request stands")
			}
		})
	}
}

// An id that could lead out of the journal, or hide an entry, names no file.
func TestJournalRefusesIDs(t *testing.T) {
	j := journalIn(t)
	for _, id := range []string{"", "../evil", "a/b", ".hidden", "a b"} {
		_, err := j.Begin(t.Context(), Intent{ID: id})
		wantError(t, err, "request_id")
	}
	if left := ls(t, filepath.Dir(string(j))); left != "" {
		t.Errorf("it left %s", left)
	}
	if _, err := Journal(filepath.Join(t.TempDir(), "no", "journal")).Begin(t.Context(), Intent{ID: "a", Kind: KindExec}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a journal below no directory: %v, want %v", err, os.ErrNotExist)
	}
}

// Another process may say that what an entry is about is done. The live process of the entry learns
// of it; an entry that is lost with its directory says nothing.
func TestJournalRemove(t *testing.T) {
	j := Journal(filepath.Join(t.TempDir(), "journal"))
	e, err := j.Begin(t.Context(), Intent{ID: "a", Kind: KindExec, Handle: "/h"})
	ok(t, err)
	kept, err := j.Begin(t.Context(), Intent{ID: "b", Kind: KindExec, Handle: "/h"})
	ok(t, err)
	if !e.Stands() || !kept.Stands() {
		t.Error("a new entry does not stand")
	}
	ok(t, j.Remove("a"))
	ok(t, j.Remove("a"))
	ok(t, j.Remove("none"))
	if left := ls(t, string(j)); left != "b.json" {
		t.Errorf("the journal has %s", left)
	}
	if e.Stands() || !kept.Stands() {
		t.Errorf("removed, one stands: %t, and the other: %t", e.Stands(), kept.Stands())
	}
	if err := j.Remove("../b"); err == nil {
		t.Error("a path was taken for an id")
	}
	ok(t, os.RemoveAll(string(j)))
	if !kept.Stands() {
		t.Error("it does not stand, since its directory is gone")
	}
	ok(t, e.Settle())
	ok(t, kept.Settle())
}

// What a dead process was granted may last for its TTL after its last renewal, and a day more if no server ran, and a
// request without an answer for 90 s. Both count from when somebody noticed that the process is dead.
func TestJournalOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := leaseapi.Caller{Name: "alice", Issuer: "https://ci"}
		es := Entries{StateDir: filepath.Join(t.TempDir(), "state")}
		for id, ttl := range map[string]time.Duration{"long": time.Hour, "short": 10 * time.Second, "unanswered": 0} {
			ok(t, es.Begin(t.Context(), Intent{ID: id, Request: id, Kind: KindExec, Handle: "/h"}))
			if ttl > 0 {
				es.Granted(Record{RequestID: id, Taker: taker, TTL: ttl})
			}
			es.Leave(id)
		}
		look := func() (outlived []string) {
			ok(t, es.Journal().SettleDead(t.Context(), func(in Intent) bool {
				if in.Outlived(time.Now(), 0) != es.Outlived(in.Request, 0) {
					t.Errorf("%s has outlived itself: %t, and in the journal %t", in.ID, in.Outlived(time.Now(), 0), es.Outlived(in.Request, 0))
				}
				if (in.Taker == taker) != (in.ID != "unanswered") {
					t.Errorf("%s: taken by %v", in.ID, in.Taker)
				}
				if in.Outlived(time.Now(), 0) {
					outlived = append(outlived, in.ID)
				}
				return false
			}))
			return outlived
		}
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{{0, ""}, {89 * time.Second, ""}, {2 * time.Second, "unanswered"}, {24*time.Hour - 85*time.Second, "unanswered"}, {5 * time.Second, "short unanswered"}, {time.Hour, "long short unanswered"}} {
			time.Sleep(tt.after)
			if got := slices.Sorted(slices.Values(look())); strings.Join(got, " ") != tt.want {
				t.Errorf("after %s more: %v, want %s", tt.after, got, tt.want)
			}
		}
	})
}
