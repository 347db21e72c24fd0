package lockfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Files of format 0, as programs wrote them before files had a number: such a program wrote
// testdata/format0.
var (
	format0At     = time.Date(2026, 11, 22, 2, 58, 43, 0, time.UTC)
	format0Leases = []Lease{{Name: "install-0", Generation: 1763780323000001}, {Name: "install-1", Generation: 1763780323000002}}

	format0Records = map[string]Record{
		"queued": {
			State: HandleQueued, RequestID: "Q7", Owner: "https://ci/job/7", Ask: leaseapi.Ask{Type: "aws", Count: 2}, Proxy: "http://proxy", TTL: 5 * time.Minute,
			Earlier: []Owed{{RequestID: "P6", Owner: "me", Proxy: "http://old", Leases: []Lease{{Name: "install-2", Generation: 3}}, SharedList: "/shared/leases"}},
		},
		"held": {
			State: HandleHeld, RequestID: "H7", Owner: "https://ci/job/7", Ask: leaseapi.Ask{Type: "aws", Count: 2}, Proxy: "http://proxy", TTL: 5 * time.Minute,
			Leases: format0Leases, SharedList: "/shared/leases", AcquiredAt: format0At, ReleaseAt: format0At.Add(20 * time.Minute), KeeperPID: 42,
		},
		"releasing": {
			State:   HandleReleasing,
			Earlier: []Owed{{RequestID: "H7", Owner: "https://ci/job/7", Proxy: "http://proxy", Leases: format0Leases, SharedList: "/shared/leases"}},
		},
	}
	format0Intents = map[string]Intent{
		"A7": {ID: "A7", Kind: KindAcquire, Request: "A7", Handle: "/state/h", Proxy: "http://proxy", Type: "aws", Count: 2, Owner: "me", PID: 42, Begun: format0At},
		"X7": {ID: "X7", Kind: KindExec, Request: "X7", Handle: "/state/h", Proxy: "http://proxy", Type: "aws", Count: 1, Owner: "me", PID: 42, Begun: format0At},
		"R7": {ID: "R7", Kind: KindRelease, Request: "H7", Handle: "/state/h", Proxy: "http://proxy", Type: "aws", Count: 1, Owner: "me", PID: 42, Begun: format0At},
	}
)

// copyFormat0 copies the files of format 0 to a directory of the test's own.
func copyFormat0(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ok(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "format0"))))
	return dir
}

// A handle of format 0 keeps its meaning. It stays as it is until its record changes. Then it
// gets this format, with the rest of the record unchanged.
func TestFormat0Handle(t *testing.T) {
	for name, want := range format0Records {
		t.Run(name, func(t *testing.T) {
			h, err := OpenHandle(filepath.Join(copyFormat0(t), name))
			ok(t, err)
			wantRecord(t, h, want)
			before := read(t, h.jsonPath())
			ok(t, h.Update(t.Context(), func(*Tx) error { return nil }))
			if got := read(t, h.jsonPath()); got != before {
				t.Errorf("nothing changed, and the record became %s", got)
			}
			want.Type = "gcp"
			ok(t, h.Update(t.Context(), func(tx *Tx) error { tx.Type = "gcp"; return nil }))
			wantRecord(t, h, want)
			changed := strings.Replace(before, `"aws"`, `"gcp"`, 1)
			if !strings.Contains(before, `"aws"`) { // the field was not there
				changed = strings.Replace(before, `"state": "releasing",`, "\"state\": \"releasing\",\n  \"type\": \"gcp\",", 1)
			}
			number := "{\n  \"format\": 1,\n"
			if name != "held" { // owed names get a names file
				number = "{\n  \"format\": 2,\n"
				if got := read(t, h.path); !strings.HasPrefix(got, "install-") {
					t.Errorf("changed, the names are %q", got)
				}
			}
			if got, want := read(t, h.jsonPath()), strings.Replace(changed, "{\n", number, 1); got != want {
				t.Errorf("changed, the record is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Journal entries of format 0 keep their meaning. This format is the same text behind a number.
func TestFormat0Journal(t *testing.T) {
	dir := copyFormat0(t)
	ok(t, os.Chmod(filepath.Join(dir, "journal"), 0o700))
	j := Journal(filepath.Join(dir, "journal"))
	got := make(map[string]Intent)
	ok(t, j.SettleDead(t.Context(), func(in Intent) bool { got[in.ID] = in; return false }))
	if !reflect.DeepEqual(got, format0Intents) {
		t.Errorf("it has %+v\nwant %+v", got, format0Intents)
	}
	for id, in := range format0Intents {
		path := filepath.Join(string(j), id+".json")
		before := read(t, path)
		ok(t, os.Remove(path))
		e, err := j.Begin(t.Context(), in)
		ok(t, err)
		if got, want := read(t, path), strings.Replace(before, "{", `{"format":1,`, 1); got != want {
			t.Errorf("written again it is %s\nwant %s", got, want)
		}
		ok(t, e.Settle())
	}
}

// newerRecords are records of a newer format, whose fields may mean anything.
var newerRecords = []string{
	`{"format":4,"state":"held","leases":[{"name":"a","generation":1}]}`,
	`{"state":["a","queue"],"format":99,"leases":{"a":1},"ttl":300}`,
	`{"format":4}`,
}

// A handle that a newer program wrote, or was writing when it was killed, is
// refused with the number of its format, and stays as it is. Its names can be read.
func TestNewerHandle(t *testing.T) {
	for _, record := range newerRecords {
		for _, suffix := range []string{jsonSuffix, nextSuffix} {
			for _, names := range []string{"missing", "", "a\nb\n"} {
				t.Run(fmt.Sprintf("%s in %s beside %q", record, suffix, names), func(t *testing.T) {
					h := handleIn(t)
					if suffix == nextSuffix {
						ok(t, h.Update(t.Context(), set(held("r", "a"))))
						ok(t, os.Remove(h.path))
					}
					if names != "missing" {
						write(t, h.path, names)
					}
					write(t, h.path+suffix, record)
					ok(t, WithLock(t.Context(), h.lockPath(), func() error { return nil })) // so that it is no news
					before := contents(t, filepath.Dir(h.path))

					r, err := h.Read()
					wantNewer(t, err)
					wantError(t, err, h.path)
					parsed, _ := parseNames([]byte(names))
					if names == "missing" {
						parsed = nil
					}
					if !reflect.DeepEqual(r, Record{Leases: bare(parsed).Leases}) {
						t.Errorf("it reads as %+v, want the names %q alone", r, parsed)
					}
					wantNewer(t, h.Update(t.Context(), func(tx *Tx) error {
						t.Errorf("Update called its function with %+v", tx.Record)
						tx.Record = held("mine", "z")
						return nil
					}))
					_, err = h.Sweep(t.Context(), time.Now().Add(time.Hour))
					wantNewer(t, err)
					synctest.Test(t, func(t *testing.T) {
						wantNewer(t, h.Watch(t.Context(), func(r Record) bool {
							t.Errorf("Watch called its function with %+v", r)
							return false
						}))
					})
					if after := contents(t, filepath.Dir(h.path)); !reflect.DeepEqual(after, before) {
						t.Errorf("it left %q of %q", after, before)
					}
				})
			}
		}
	}
}

// A journal entry of a newer format is passed to nobody, is in the error, and stays, also when
// an entry of the same id is begun. The other entries are passed on.
func TestNewerJournal(t *testing.T) {
	j := journalIn(t)
	begin(t, j, "good").Leave()
	for i, entry := range []string{
		`{"format":4,"id":"newer0","kind":"acquire","handle":"/h","pid":1}`,
		`{"format":4,"id":{"new":"form"},"padding":"` + strings.Repeat("x", 1000) + `"}`,
	} {
		write(t, filepath.Join(string(j), fmt.Sprintf("newer%d.json", i)), entry)
	}
	before := contents(t, string(j))
	var got []string
	err := j.SettleDead(t.Context(), func(in Intent) bool { got = append(got, in.ID); return false })
	wantNewer(t, err)
	for _, name := range []string{"newer0.json", "newer1.json"} {
		wantError(t, err, filepath.Join(string(j), name))
		id := strings.TrimSuffix(name, ".json")
		_, err := j.Begin(t.Context(), Intent{ID: id, Kind: KindRelease})
		wantNewer(t, err)
		ok(t, TryLock(filepath.Join(string(j), name), func() error { return nil }))
	}
	if !slices.Equal(got, []string{"good"}) {
		t.Errorf("handed out: %q", got)
	}
	if after := contents(t, string(j)); !reflect.DeepEqual(after, before) {
		t.Errorf("there is %q, and was %q", after, before)
	}
}

func wantNewer(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrNewer) {
		t.Errorf("error %v, want %v", err, ErrNewer)
		return
	}
	if text := err.Error(); !strings.Contains(text, "written by a newer leasectl (format 4): use that") &&
		!strings.Contains(text, "written by a newer leasectl (format 99): use that") {
		t.Errorf("error %q does not say which format it is and what to do", text)
	}
}

// contents returns the contents of the files of a directory, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for name := range strings.FieldsSeq(ls(t, dir)) {
		files[name] = read(t, filepath.Join(dir, name))
	}
	return files
}

// A handle of format 2, which owes releases beside its own request, keeps its meaning: a program of
// that format wrote testdata/format2.
func TestFormat2Handle(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "format2"))))
	h, err := OpenHandle(filepath.Join(dir, "queued"))
	ok(t, err)
	want := Record{
		State: HandleQueued, RequestID: "Q7", Owner: "job-7", Ask: leaseapi.Ask{Type: "aws"}, Proxy: "http://proxy", TTL: 5 * time.Minute,
		Earlier: []Owed{
			{RequestID: "P6", Owner: "job-7", Proxy: "http://old", Store: "S1", Leases: []Lease{{Name: "install-2", Generation: 3}}, NotAfter: format0At, Unsent: true},
			{RequestID: "P5", Owner: "job-7", Proxy: "http://v1", Leases: []Lease{{Name: "install-9"}}, Unconfirmed: true},
		},
	}
	wantRecord(t, h, want)
	if got := want.NamesInFile(); !slices.Equal(got, []string{"install-2", "install-9"}) {
		t.Errorf("its names are %q", got)
	}
	want.Earlier = want.Earlier[1:]
	ok(t, h.Update(t.Context(), func(tx *Tx) error { tx.Earlier = tx.Earlier[1:]; return nil }))
	wantRecord(t, h, want)
	ok(t, h.Update(t.Context(), func(tx *Tx) error { tx.Earlier = nil; return nil }))
	if got := read(t, h.jsonPath()); !strings.Contains(got, `"format": 1`) {
		t.Errorf("without what it owed, it is %s", got)
	}
}
