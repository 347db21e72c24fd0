package lockfile

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func historyIn(t *testing.T) History { return History(filepath.Join(t.TempDir(), "history")) }

var historyAt = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// grantOf returns a grant of a name; a greater n is a later grant.
func grantOf(name, store string, n int) Grant {
	return Grant{
		Lease: Lease{Name: name, Generation: uint64(n)}, Store: store, RequestID: fmt.Sprintf("r%d", n), Owner: "me",
		Handle: "/h", SharedList: "/shared/leases", At: historyAt.Add(time.Duration(n) * time.Second),
	}
}

// The newest grant of a name at a store is remembered, by its generation, in whatever order
// grants are written, and also that it was given back. A give-back of an earlier grant changes
// nothing.
func TestHistory(t *testing.T) {
	h := historyIn(t)
	of := func(name string, want ...Grant) {
		t.Helper()
		got, err := h.Of(name)
		ok(t, err)
		for i := range got {
			if !got[i].GivenBack.IsZero() {
				got[i].GivenBack = historyAt
			}
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it remembers %+v\nwant %+v", name, got, want)
		}
	}
	of("a")
	ok(t, h.NoteGivenBack(t.Context(), []Grant{grantOf("a", "s", 1)}))
	ok(t, h.Add(t.Context(), []Grant{grantOf("a", "s", 1), grantOf("..", "s", 1)}))
	of("a", grantOf("a", "s", 1))
	of("..", grantOf("..", "s", 1))
	ok(t, h.NoteGivenBack(t.Context(), []Grant{grantOf("a", "s", 2), grantOf("a", "other", 1)}))
	of("a", grantOf("a", "s", 1))
	given := grantOf("a", "s", 1)
	given.GivenBack = historyAt
	ok(t, h.NoteGivenBack(t.Context(), []Grant{grantOf("a", "s", 1)}))
	of("a", given)

	ok(t, h.Add(t.Context(), []Grant{grantOf("a", "s", 3), grantOf("a", "other", 1)}))
	ok(t, h.Add(t.Context(), []Grant{grantOf("a", "s", 2)})) // answered late
	ok(t, h.NoteGivenBack(t.Context(), []Grant{grantOf("a", "s", 2)}))
	of("a", grantOf("a", "s", 3), grantOf("a", "other", 1))

	// A proxy of version 1 gives no generations: the request tells its grants apart, and
	// the last line is the newest, also when the clock was set back before it.
	v1 := func(n int) Grant { g := grantOf("b", "s", n); g.Generation = 0; return g }
	ok(t, h.Add(t.Context(), []Grant{v1(2)}))
	ok(t, h.NoteGivenBack(t.Context(), []Grant{v1(2)}))
	ok(t, h.Add(t.Context(), []Grant{v1(1)}))
	ok(t, h.NoteGivenBack(t.Context(), []Grant{v1(2)}))
	of("b", v1(1))
	given = v1(1)
	given.GivenBack = historyAt
	ok(t, h.NoteGivenBack(t.Context(), []Grant{v1(1)}))
	of("b", given)

	all, err := h.All()
	ok(t, err)
	if len(all) != 4 {
		t.Errorf("all that it remembers is %+v", all)
	}
}

// A broken file has no grants; a file of a newer program is an error. A directory that is not
// ours is refused.
func TestHistoryFiles(t *testing.T) {
	h := historyIn(t)
	ok(t, h.Add(t.Context(), []Grant{grantOf("a", "s", 1)}))
	for _, text := range []string{"", "{", `{"format":1,"grants":[{"name":"b","generation":1}]}`, `{"format":1,"grants":[{"name":"a/b"}]}`} {
		write(t, h.path("a"), text)
		if got, err := h.Of("a"); len(got) > 0 || err != nil {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
		ok(t, h.Add(t.Context(), []Grant{grantOf("a", "s", 1)}))
		if got, err := h.Of("a"); len(got) != 1 || err != nil {
			t.Errorf("written over %q it is %+v, %v", text, got, err)
		}
	}
	write(t, h.path("a"), `{"format":99,"grants":7}`)
	_, err := h.Of("a")
	wantNewer(t, err)
	wantNewer(t, h.Add(t.Context(), []Grant{grantOf("a", "s", 1)}))
	wantNewer(t, h.NoteGivenBack(t.Context(), []Grant{grantOf("a", "s", 1)}))
	if got := read(t, h.path("a")); !strings.Contains(got, "99") {
		t.Errorf("the newer file became %q", got)
	}
	ok(t, os.Chmod(string(h), 0o777))
	wantError(t, h.Add(t.Context(), []Grant{grantOf("b", "s", 1)}), "other users can write")
}

// The file of an older program, which has one line, goes on as a log. Half a line, which a
// killed process left, is skipped and spoils no other line.
func TestHistoryLog(t *testing.T) {
	h := historyIn(t)
	ok(t, os.Mkdir(string(h), 0o700))
	older := grantOf("a", "s", 1)
	write(t, h.path("a"), `{"format":1,"grants":[{"name":"a","generation":1,"store":"s","request_id":"r1","owner":"me","handle":"/h",`+
		`"shared_list":"/shared/leases","at":"2026-11-22T03:00:01Z"},{"name":"a","store":"other","request_id":"r9","given_back":"2026-11-22T03:00:02Z"}]}`+"\n")
	over := Grant{Lease: Lease{Name: "a"}, Store: "other", RequestID: "r9", GivenBack: historyAt.Add(2 * time.Second)}
	of := func(want ...Grant) {
		t.Helper()
		if got, err := h.Of("a"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("it remembers %+v, %v\nwant %+v", got, err, want)
		}
	}
	of(older, over)
	write(t, h.path("a"), read(t, h.path("a"))+`{"format":1,"grants":[{"na`)
	of(older, over)
	newer := grantOf("a", "s", 2)
	ok(t, h.Add(t.Context(), []Grant{newer}))
	of(newer, over)
	for n := 3; n < 100; n++ {
		newer = grantOf("a", "s", n)
		ok(t, h.Add(t.Context(), []Grant{newer}))
		of(newer, over)
		ok(t, h.NoteGivenBack(t.Context(), []Grant{newer}))
		if got, err := h.Of("a"); err != nil || len(got) != 2 || got[0].GivenBack.IsZero() {
			t.Fatalf("%+v, %v, want that it was given back", got, err)
		}
		if size := len(read(t, h.path("a"))); size > historyFile {
			t.Fatalf("the file has %d bytes", size)
		}
	}
}

// If a name is at more stores than fit into a file, its oldest grant is forgotten.
func TestHistoryOfManyStores(t *testing.T) {
	h := historyIn(t)
	for n := 1; n <= 30; n++ {
		ok(t, h.Add(t.Context(), []Grant{grantOf("a", fmt.Sprintf("http://%d.%s", n, strings.Repeat("x", 150)), n)}))
	}
	got, err := h.Of("a")
	ok(t, err)
	if len(got) < 5 || got[len(got)-1].Generation != 30 || got[0].Generation != uint64(31-len(got)) {
		t.Errorf("it remembers %d: %+v", len(got), got)
	}
	if size := len(read(t, h.path("a"))); size > historyFile {
		t.Errorf("the file has %d bytes", size)
	}
}

// A grant whose paths alone are longer than a file should be is remembered all the same, also
// after further lines.
func TestHistoryOfALongGrant(t *testing.T) {
	h := historyIn(t)
	long := grantOf("a", "s", 2)
	long.Handle, long.SharedList = "/"+strings.Repeat("h", historyFile/2), "/"+strings.Repeat("s", historyFile/2)
	ok(t, h.Add(t.Context(), []Grant{long}))
	ok(t, h.Add(t.Context(), []Grant{grantOf("a", "s", 1)})) // answered late
	if got, err := h.Of("a"); err != nil || !reflect.DeepEqual(got, []Grant{long}) {
		t.Fatalf("it remembers %+v, %v", got, err)
	}
	ok(t, h.NoteGivenBack(t.Context(), []Grant{long}))
	if got, err := h.Of("a"); err != nil || len(got) != 1 || got[0].Handle != long.Handle || got[0].GivenBack.IsZero() {
		t.Errorf("it remembers %+v, %v, want that the long grant was given back", got, err)
	}
}

// Old names are forgotten, and the oldest of too many.
func TestHistoryPrune(t *testing.T) {
	h := historyIn(t)
	old, young := time.Now().Add(-historyKept-time.Minute), time.Now().Add(-historyKept+time.Minute)
	for name, at := range map[string]time.Time{"old": old, "young": young} {
		ok(t, h.Add(t.Context(), []Grant{grantOf(name, "s", 1)}))
		ok(t, os.Chtimes(h.path(name), at, at))
	}
	pruner := 0
	for !h.prunes(fmt.Sprint(pruner)) {
		pruner++
	}
	ok(t, h.Add(t.Context(), []Grant{grantOf(fmt.Sprint(pruner), "s", 1)}))
	for name, want := range map[string]int{"old": 0, "young": 1} {
		if got, err := h.Of(name); len(got) != want || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for i := range historyMost {
		write(t, filepath.Join(string(h), fmt.Sprint(i)), "")
	}
	h.prune()
	if files, err := byAge(string(h), ""); len(files) != historyMost || err != nil {
		t.Errorf("%d files are left, %v", len(files), err)
	}
	if got, _ := h.Of("young"); len(got) > 0 {
		t.Error("the oldest is still there")
	}
}

// A name that is granted again while its file is about to be removed is remembered.
func TestHistoryKeepsWhatIsGrantedMeanwhile(t *testing.T) {
	t.Parallel()
	h := historyIn(t)
	ok(t, h.Add(t.Context(), []Grant{grantOf("again", "s", 1), grantOf("gone", "s", 2)}))
	old := time.Now().Add(-historyKept - time.Minute)
	for _, name := range []string{"again", "gone"} {
		ok(t, os.Chtimes(h.path(name), old, old))
	}
	files := h.outdated()
	ok(t, h.Add(t.Context(), []Grant{grantOf("again", "s", 3)}))
	forget(files)
	forget(files) // of another process
	if all, err := h.All(); err != nil || len(all) != 1 || all[0].Name != "again" || all[0].Generation != 3 {
		t.Errorf("remembered are %+v (%v), want the newest grant of again", all, err)
	}
	if files, err := byAge(string(h), ""); len(files) != 1 || err != nil {
		t.Errorf("%d files are left (%v), want 1", len(files), err)
	}
}

// Processes that write one name at a time lose nothing.
func TestHistoryConcurrently(t *testing.T) {
	h := historyIn(t)
	var all sync.WaitGroup
	for n := 1; n <= 8; n++ {
		all.Go(func() {
			g := grantOf("a", fmt.Sprint(n), n)
			if err := h.Add(t.Context(), []Grant{g}); err != nil {
				t.Error(err)
			}
			if err := h.NoteGivenBack(t.Context(), []Grant{g}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := h.Of("a")
	ok(t, err)
	for _, g := range got {
		if g.GivenBack.IsZero() {
			t.Errorf("%+v is not given back", g)
		}
	}
	if len(got) != 8 {
		t.Errorf("it remembers %+v", got)
	}
}

// A file that is written after a call of FileTime is not older than its result.
func TestFileTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for range 1000 {
		at := FileTime()
		write(t, path, "x")
		if written := modified(path); written.Before(at) {
			t.Fatalf("written at %v, after %v", written, at)
		}
	}
	before := time.Now()
	at := FileTime()
	if at.Before(before.Add(-time.Second)) || at.After(time.Now()) {
		t.Errorf("it is %v after %v", at, before)
	}
	second := historyAt
	ok(t, os.Chtimes(path, second, second))
	if got := modified(path); got.Before(second.Add(999*time.Millisecond)) || !got.Before(second.Add(time.Second)) {
		t.Errorf("a file without fractions was written at %v", got)
	}
}
