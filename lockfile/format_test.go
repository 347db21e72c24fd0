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
)

// newerRecords are records of a newer format, whose fields may mean anything.
var newerRecords = []string{
	`{"format":2,"state":"held","leases":[{"name":"a","generation":1}]}`,
	`{"state":["a","queue"],"format":99,"leases":{"a":1},"ttl":300}`,
	`{"format":2}`,
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
		`{"format":2,"id":"newer0","kind":"acquire","handle":"/h","pid":1}`,
		`{"format":2,"id":{"new":"form"},"padding":"` + strings.Repeat("x", 1000) + `"}`,
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

// JSON without a format, which no leasectl wrote, is no record and no entry, and stays.
func TestNoFormat(t *testing.T) {
	j := journalIn(t)
	ok(t, os.Mkdir(string(j), 0o700))
	entry := filepath.Join(string(j), "x.json")
	write(t, entry, `{"id":"x","kind":"hold","request":"x"}`)
	err := j.SettleDead(t.Context(), func(in Intent) bool { t.Errorf("handed out: %+v", in); return true })
	wantError(t, err, entry+" is no entry of the journal (no leasectl wrote it: it has no format)")
	if got := ls(t, string(j)); got != "x.json" {
		t.Errorf("left: %q", got)
	}
	s := Shared(filepath.Join(t.TempDir(), "s"))
	write(t, s.jsonPath(), `{"name":"s","rounds":[{"id":"R1"}]}`)
	wantError(t, s.Update(t.Context(), func(*SharedTx) error { return nil }), "it has no format")
	l := List(filepath.Join(t.TempDir(), "leases"))
	write(t, string(l), "a\n")
	write(t, l.jsonPath(), `{"grants":[{"name":"a","generation":7}]}`)
	if got, _, err := l.Read(); err != nil || len(got) != 1 || got[0].identified() {
		t.Errorf("the list has %+v, %v; want the name alone", got, err)
	}
}

func wantNewer(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrNewer) {
		t.Errorf("error %v, want %v", err, ErrNewer)
		return
	}
	if text := err.Error(); !strings.Contains(text, "written by a newer leasectl (format 2): use that") &&
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

// A file of many elements that are nothing is not decoded into hundreds of times its size.
func TestManyElements(t *testing.T) {
	for _, field := range []string{"leases", "replaces", "grants"} {
		text := `{"format":1,"` + field + `":[` + strings.Repeat("0,", maxFile/4) + `0]}`
		wantError(t, unmarshal([]byte(text), new(any)), "elements in its lists")
	}
}
