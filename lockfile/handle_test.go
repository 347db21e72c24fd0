package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestOpenHandle(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	ok(t, os.Mkdir("dir", 0o700))
	ok(t, os.Symlink("dir", "link"))
	ok(t, os.Symlink("nowhere", "dangling"))
	write(t, "file", "a\n")
	dir, err := os.Getwd() // as the system names it: on macOS, t.TempDir is behind a symlink
	ok(t, err)
	for _, tt := range []struct{ path, want, says string }{
		{"file", dir + "/file", ""},
		{"new", dir + "/new", ""},
		{"./dir/../new", dir + "/new", ""},
		{"no/such/dir/handle", dir + "/no/such/dir/handle", ""},
		{dir + "/file", dir + "/file", ""},
		{"link/handle", dir + "/link/handle", ""},
		{"jsonlock", dir + "/jsonlock", ""},
		{"", "", "empty"},
		{"dir", "", "is a directory"},
		{"dir/", "", "path of a directory"},
		{"new/", "", "path of a directory"},
		{".", "", "is a directory"},
		{"/", "", "directory"},
		{"link", "", "is a symlink"},
		{"dangling", "", "is a symlink"},
		{"file.json", "", "ends in .json"},
		{"file.lock", "", "ends in .lock"},
		{strings.Repeat("a", 5000), "", "the name of the file has 5000 bytes: choose one of at most 230"},
		{strings.Repeat("dir/", 2000) + "a", "", "bytes: choose one of at most 4070"},
	} {
		h, err := OpenHandle(tt.path)
		if tt.says != "" {
			wantError(t, err, tt.says)
			continue
		}
		if err != nil || h.Path() != tt.want {
			t.Errorf("%q: path %q, error %v, want path %q", tt.path, h.Path(), err, tt.want)
		}
	}
}

// The longest name leaves room for the names of the files beside it.
func TestLongestHandle(t *testing.T) {
	if _, err := OpenHandle(strings.Repeat("a", maxHandleName+1)); err == nil {
		t.Error("a longer one is accepted")
	}
	h, err := OpenHandle(filepath.Join(t.TempDir(), strings.Repeat("a", maxHandleName)))
	ok(t, err)
	ok(t, h.Update(t.Context(), func(tx *Tx) error {
		tx.Record = Record{State: HandleQueued, RequestID: "a"}
		return tx.Save()
	}))
	ok(t, h.Update(t.Context(), func(tx *Tx) error {
		tx.Record = Record{State: HandleHeld, RequestID: "a", Leases: []Lease{{Name: "t-0", Generation: 1}}}
		return nil
	}))
}

// The meaning of all files together, for every content that each of them may have.
func TestReadCombinations(t *testing.T) {
	const missing = "missing"
	names := []struct{ is, text string }{
		{"none", missing}, {"empty", " \n"}, {"own", "a\nb\n"}, {"sorted by hand", "b\r\n\r\na"}, {"other", "c\n"}, {"invalid", "a/b\n"},
	}
	// Records are named by their request id. Those that begin with { get a format.
	const (
		ab     = `"leases":[{"name":"a","generation":1},{"name":"b","generation":2}]`
		c      = `"leases":[{"name":"c","generation":3}]`
		queued = `{"state":"queued","request_id":"json"}`
	)
	for _, tt := range []struct {
		is, json, next string
		want           [6]string // as names
	}{
		{"no record", missing, missing, [6]string{"gone", "gone", "bare", "bare", "bare", "error"}},
		{"queued", queued, missing, [6]string{"json", "json", "bare", "bare", "bare", "error"}},
		{"held", `{"state":"held","request_id":"json",` + ab + `}`, missing, [6]string{"gone", "gone", "json", "json", "bare", "error"}},
		{"held for nothing", `{"state":"held","request_id":"json"}`, missing, [6]string{"gone", "json", "bare", "bare", "bare", "error"}},
		{"releasing", `{"state":"releasing","request_id":"json",` + ab + `}`, missing, [6]string{"json", "json", "json", "json", "bare", "error"}},
		{"releasing a request", `{"state":"releasing","request_id":"json"}`, missing, [6]string{"json", "json", "bare", "bare", "bare", "error"}},
		{"of a newer version", `{"state":"releasing","lent":true,"request_id":"json",` + ab + `}`, missing, [6]string{"json", "json", "json", "json", "bare", "error"}},
		{"of an unknown state", `{"state":"lent","request_id":"json",` + ab + `}`, missing, [6]string{"error", "error", "bare", "bare", "bare", "error"}},
		{"broken", `{"state":"he`, missing, [6]string{"error", "error", "bare", "bare", "bare", "error"}},
		{"releasing no request", `{"state":"releasing",` + ab + `}`, missing, [6]string{"error", "error", "bare", "bare", "bare", "error"}},
		{"of no format", ` {"state":"held","request_id":"json",` + ab + `}`, missing, [6]string{"error", "error", "bare", "bare", "bare", "error"}},
		{"empty", ``, missing, [6]string{"error", "error", "bare", "bare", "bare", "error"}},
		{"stateless", `{"request_id":"json"}`, missing, [6]string{"error", "error", "bare", "bare", "bare", "error"}},

		{"none to held", missing, `{"state":"held","request_id":"next",` + ab + `}`, [6]string{"gone", "gone", "next", "next", "bare", "error"}},
		{"none to queued", missing, `{"state":"queued","request_id":"next"}`, [6]string{"next", "next", "bare", "bare", "bare", "error"}},
		{"queued to held", queued, `{"state":"held","request_id":"next",` + ab + `}`, [6]string{"json", "json", "next", "next", "bare", "error"}},
		{"held to held", `{"state":"held","request_id":"json",` + c + `}`, `{"state":"held","request_id":"next",` + ab + `}`, [6]string{"gone", "gone", "next", "next", "json", "error"}},
		{"held to queued", `{"state":"held","request_id":"json",` + ab + `}`, `{"state":"queued","request_id":"next"}`, [6]string{"next", "next", "json", "json", "bare", "error"}},
		{"held to releasing", `{"state":"held","request_id":"json",` + ab + `}`, `{"state":"releasing","request_id":"next",` + ab + `}`, [6]string{"next", "next", "next", "next", "bare", "error"}},
		{"releasing to queued", `{"state":"releasing","request_id":"json",` + ab + `}`, `{"state":"queued","request_id":"next"}`, [6]string{"next", "next", "json", "json", "bare", "error"}},
		{"held to broken", `{"state":"held","request_id":"json",` + ab + `}`, `{`, [6]string{"error", "error", "json", "json", "bare", "error"}},
	} {
		for i, n := range names {
			for _, lock := range []string{missing, ""} {
				t.Run(fmt.Sprintf("%s, %s names, %s lock", tt.is, n.is, lock), func(t *testing.T) {
					h := handleIn(t)
					for path, text := range map[string]string{h.path: n.text, h.jsonPath(): tt.json, h.nextPath(): tt.next, h.lockPath(): lock} {
						if text != missing {
							write(t, path, ofFormat1(text))
						}
					}
					r, err := h.Read()
					if got := meaning(r, err); got != tt.want[i] {
						t.Errorf("it is %s (%+v, %v), want %s", got, r, err, tt.want[i])
					}
					if tt.want[i] == "bare" {
						parsed, _ := parseNames([]byte(n.text))
						if !reflect.DeepEqual(r.Names(), parsed) {
							t.Errorf("bare names %q, want %q", r.Names(), parsed)
						}
					}

					// Under the lock it is the same.
					var seen Record
					err = h.Update(t.Context(), func(tx *Tx) error { seen = tx.Record; return errAbort })
					if err == errAbort {
						err = nil
					}
					if err == nil && seen.State == "" {
						err = fs.ErrNotExist
					}
					if got := meaning(seen, err); got != tt.want[i] {
						t.Errorf("in Update it is %s (%+v, %v), want %s", got, seen, err, tt.want[i])
					}
				})
			}
		}
	}
}

// ofFormat1 adds the format to JSON that begins with {.
func ofFormat1(text string) string {
	if fields, found := strings.CutPrefix(text, "{"); found {
		return `{"format":1,` + fields
	}
	return text
}

var errAbort = errors.New("aborted")

func meaning(r Record, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "gone"
	case err != nil:
		return "error"
	case r.RequestID != "":
		return r.RequestID
	case r.State == HandleHeld && len(r.Leases) > 0 && reflect.DeepEqual(r, Record{State: HandleHeld, Leases: r.Leases}):
		return "bare"
	}
	return "something else"
}

func TestReadErrors(t *testing.T) {
	h := handleIn(t)
	write(t, h.path, "a\nb/c\n")
	_, err := h.Read()
	wantError(t, err, h.path)
	wantError(t, err, "line 2")

	h = handleIn(t)
	write(t, h.jsonPath(), "{")
	_, err = h.Read()
	wantError(t, err, h.path)
	wantError(t, err, "remove")

	h, err = OpenHandle(filepath.Join(t.TempDir(), "gone", "handle"))
	ok(t, err)
	if _, err := h.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its directory: %v, want ErrNotExist", err)
	}
}

// Files that were read in the middle of a change are not returned: two reads in a row that find
// the same are of one moment.
func TestUntilSame(t *testing.T) {
	old := files{text: []byte("a\n"), json: []byte("1")}
	mixed := files{text: []byte("b\n"), json: []byte("1")}
	now := files{text: []byte("b\n"), json: []byte("2")}
	failed := errors.New("failed")
	for _, tt := range []struct {
		name  string
		found []files // then failed
		want  files
		err   error
	}{
		{"nothing goes on", []files{old, old}, old, nil},
		{"a change", []files{mixed, now, now}, now, nil},
		{"two changes", []files{old, mixed, now, old, old, now}, old, nil},
		{"no end", []files{old, mixed, now}, files{}, failed},
		{"no files", nil, files{}, failed},
	} {
		got, err := untilSame(func() (files, error) {
			if len(tt.found) == 0 {
				return files{}, failed
			}
			f := tt.found[0]
			tt.found = tt.found[1:]
			return f, nil
		}, files.same)
		if !reflect.DeepEqual(got, tt.want) || err != tt.err {
			t.Errorf("%s: %+v, %v; want %+v, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// A time without a fraction of a second may be any in that second.
func TestModified(t *testing.T) {
	h := handleIn(t)
	if at := h.Modified(); !at.IsZero() {
		t.Errorf("of no file: %v", at)
	}
	write(t, h.path, "a\n")
	whole := time.Unix(1_000_000_000, 0)
	for _, tt := range []struct{ written, want time.Time }{
		{whole, whole.Add(time.Second - 1)},
		{whole.Add(time.Millisecond), whole.Add(time.Millisecond)},
	} {
		ok(t, os.Chtimes(h.path, time.Time{}, tt.written))
		if at := h.Modified(); !at.Equal(tt.want) {
			t.Errorf("written at %v: %v, want %v", tt.written, at, tt.want)
		}
	}
}
