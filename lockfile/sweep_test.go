package lockfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Handles lists handles that have a file beside their names. Sweep removes the rest of handles
// that are gone, unless it is young.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	h, err := OpenHandle(filepath.Join(dir, "alive"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Update(t.Context(), func(tx *Tx) error { tx.Record = held("r", "a"); return nil }); err != nil {
		t.Fatal(err)
	}
	record := read(t, filepath.Join(dir, "alive.json"))
	day := time.Now().Add(-24 * time.Hour)
	for name, old := range map[string]bool{
		"lock.lock": false, "Cargo.lock": true, "stale.json": true, "moved.json": false, ".x.tmp12": true, ".y.tmp12": false, "names": true, ".tmp": true,
	} {
		path := filepath.Join(dir, name)
		text := record
		if name == "lock.lock" {
			text = ""
		}
		write(t, path, text)
		if old {
			at := day.Add(-time.Hour)
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	handles, err := Handles(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for _, h := range handles {
		removed, err := h.Sweep(t.Context(), day)
		if err != nil {
			t.Error(err)
		}
		got[filepath.Base(h.Path())] = removed
	}
	want := map[string]bool{"alive": false, "lock": true, "stale": true, "moved": false}
	for name := range want {
		if removed, listed := got[name]; !listed || removed != want[name] {
			t.Errorf("%s: removed %t, listed %t; want removed %t", name, removed, listed, want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if r, err := h.Read(); err != nil || r.RequestID != "r" {
		t.Errorf("the handle that is there: %+v, %v", r, err)
	}
	temps, err := SweepTemp(dir, day)
	if err != nil || len(temps) != 1 || filepath.Base(temps[0]) != ".x.tmp12" {
		t.Errorf("temporary files removed: %v, %v; want .x.tmp12", temps, err)
	}
	if none, err := Handles(filepath.Join(dir, "gone")); err != nil || none != nil {
		t.Errorf("handles of no directory: %v, %v", none, err)
	}
}

// The names of a handle stay although they look like a temporary file: the record beside them
// tells.
func TestSweepKeepsAHandle(t *testing.T) {
	dir := t.TempDir()
	h, err := OpenHandle(filepath.Join(dir, ".job.tmp42"))
	ok(t, err)
	ok(t, h.Update(t.Context(), func(tx *Tx) error { tx.Record = held("r", "a"); return nil }))
	if removed, err := SweepTemp(dir, time.Now().Add(time.Hour)); err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if r, err := h.Read(); err != nil || r.RequestID != "r" {
		t.Errorf("the handle is %+v, %v", r, err)
	}
}
