package shared

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/holder/dial"
	"github.com/leasectl/leasectl/holder/holdertest"
	"github.com/leasectl/leasectl/lockfile"
)

// world is a holder with a state directory and a proxy.
type world struct {
	*holder.Holder
	t      *testing.T
	proxy  *holdertest.Proxy
	dir    string
	report *report
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, proxy: holdertest.NewProxy(t), dir: filepath.Join(t.TempDir(), "state"), report: new(report)}
	if err := lockfile.MakeDir(w.dir); err != nil {
		t.Fatal(err)
	}
	w.Holder = w.reportingTo(w.report)
	return w
}

// reportingTo returns the holder of another process of the job.
func (w *world) reportingTo(r holder.Reporter) *holder.Holder {
	listening := make(chan struct{})
	close(listening)
	h := holder.New(holder.Options{
		StateDir: w.dir, Owner: "job-1", Report: r, Listening: listening,
		Proxy: dial.Options{URL: w.proxy.URL, Version: "test"},
	})
	w.t.Cleanup(h.Close)
	return h
}

// report is a reporter that remembers its lines.
type report struct{ holdertest.Lines }

func (r *report) Waiting(*holder.Wait) (stop func()) { return func() {} }

// handle opens a handle that others may know.
func (w *world) handle(name string) lockfile.Handle {
	w.t.Helper()
	h, err := holder.OpenHandle(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// write writes a record into a handle, as another process does.
func (w *world) write(h lockfile.Handle, r lockfile.Record) {
	w.t.Helper()
	if err := h.Update(w.t.Context(), func(tx *lockfile.Tx) error { tx.Record = r; return nil }); err != nil {
		w.t.Error(err)
	}
}

// within returns a context that ends after a minute, in case a call hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
