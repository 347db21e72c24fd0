package holdertest

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// World is a proxy and a state directory. The tests of a package add a holder to it.
type World struct {
	T     *testing.T
	Proxy *Proxy
	Dir   string // the state directory
}

// NewWorld starts a proxy, and makes a state directory, for as long as the test runs.
func NewWorld(t *testing.T) World {
	t.Helper()
	w := World{T: t, Proxy: NewProxy(t), Dir: filepath.Join(t.TempDir(), "state")}
	if err := lockfile.MakeDir(w.Dir); err != nil {
		t.Fatal(err)
	}
	return w
}

// Handle opens a handle that others may know.
func (w World) Handle(name string) lockfile.Handle {
	w.T.Helper()
	h, err := lockfile.OpenHandle(filepath.Join(w.Dir, name))
	if err != nil {
		w.T.Fatal(err)
	}
	return h
}

// Write writes a record into a handle, as another process does; the zero Record removes it.
func (w World) Write(h lockfile.Handle, r lockfile.Record) {
	w.T.Helper()
	if err := h.Update(w.T.Context(), func(tx *lockfile.Tx) error { tx.Record = r; return nil }); err != nil {
		w.T.Error(err)
	}
}

// JournalEntries counts the entries of the journal, of living and dead processes.
func (w World) JournalEntries() int {
	entries, _ := filepath.Glob(filepath.Join(w.Dir, "intents", "*"))
	return len(entries)
}

// WantNothingLeft checks that the proxy was told to release just these names, and that neither a
// file of the handle nor a journal entry is left.
func (w World) WantNothingLeft(handle lockfile.Handle, released ...string) {
	w.T.Helper()
	if got := w.Proxy.Released(); !slices.Equal(got, released) {
		w.T.Errorf("released %v, want %v", got, released)
	}
	if left, _ := filepath.Glob(handle.Path() + "*"); len(left) > 0 {
		w.T.Errorf("%v is left", left)
	}
	if n := w.JournalEntries(); n != 0 {
		w.T.Errorf("%d journal entries are left", n)
	}
}

// Within returns a context that ends after a minute, in case a call hangs.
func Within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
