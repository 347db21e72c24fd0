package holder

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/holder/dial"
	"github.com/leasectl/leasectl/holder/holdertest"
	"github.com/leasectl/leasectl/lockfile"
)

// world is a holder with a state directory and a proxy.
type world struct {
	*Holder
	t      *testing.T
	proxy  *holdertest.Proxy
	dir    string
	report *report
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := lockfile.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, proxy: holdertest.NewProxy(t), dir: dir, report: new(report)}
	w.Holder = w.otherProcess()
	return w
}

// otherProcess returns the holder of another process of the job.
func (w *world) otherProcess() *Holder {
	listening := make(chan struct{})
	close(listening)
	return w.processThat(listening)
}

// processThat is otherProcess, but it handles signals only once listening is closed.
func (w *world) processThat(listening <-chan struct{}) *Holder {
	h := New(Options{
		StateDir: w.dir, Owner: "job-1", Report: w.report, Listening: listening,
		Proxy: dial.Options{URL: w.proxy.URL, Version: "test"},
	})
	w.t.Cleanup(h.Close)
	return h
}

// report is a [Reporter] that remembers its lines.
type report struct{ holdertest.Lines }

func (r *report) Waiting(*Wait) (stop func()) { return func() {} }

// handle opens a handle that others may know.
func (w *world) handle(name string) lockfile.Handle {
	w.t.Helper()
	h, err := OpenHandle(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// write writes a record into a handle, as another process does; the zero Record removes it.
func (w *world) write(h lockfile.Handle, r lockfile.Record) {
	w.t.Helper()
	if err := h.Update(w.t.Context(), func(tx *lockfile.Tx) error { tx.Record = r; return nil }); err != nil {
		w.t.Error(err)
	}
}

// record returns the record of a handle; the zero Record if the handle is gone.
func (w *world) record(h lockfile.Handle) lockfile.Record {
	r, _ := h.Read()
	return r
}

// journalEntries counts the entries of the journal, of living and dead processes.
func (w *world) journalEntries() int {
	entries, _ := filepath.Glob(filepath.Join(w.dir, "intents", "*"))
	return len(entries)
}

// wantNothingLeft checks that the proxy was told to release just these names, and
// that neither a handle nor a journal entry is left.
func (w *world) wantNothingLeft(handle lockfile.Handle, released ...string) {
	w.t.Helper()
	if got := w.proxy.Released(); !slices.Equal(got, released) {
		w.t.Errorf("released %v, want %v", got, released)
	}
	if r := w.record(handle); r.State != "" {
		w.t.Errorf("the handle is left: %+v", r)
	}
	for _, suffix := range []string{"", ".json", ".lock"} {
		if _, err := os.Lstat(handle.Path() + suffix); err == nil {
			w.t.Errorf("%s is left", handle.Path()+suffix)
		}
	}
	if n := w.journalEntries(); n != 0 {
		w.t.Errorf("%d journal entries are left", n)
	}
}

// within returns a context that ends after a minute, in case a call hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// take acquires a lease into a handle that others may know.
func (w *world) take(r Request) *Lease {
	w.t.Helper()
	r.Type, r.Handle, r.WaitTimeout, r.Outlives = "t", w.handle("handle"), time.Minute, true
	l, err := w.Acquire(within(w.t), r)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := l.HandOver(within(w.t), HandOver{}, func() error { return nil }); err != nil {
		w.t.Fatal(err)
	}
	return l
}
