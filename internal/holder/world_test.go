package holder

import (
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/lockfile"
)

// world is a holder with a state directory and a proxy.
type world struct {
	*Holder
	holdertest.World
	report *report
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: holdertest.NewWorld(t), report: new(report)}
	w.Holder = w.otherProcess()
	return w
}

// otherProcess returns the holder of another process of the job.
func (w *world) otherProcess() *Holder {
	h := New(Options{
		StateDir: w.Dir, Owner: "job-1", Report: w.report,
		Proxy: dial.Options{URL: w.Proxy.URL, Version: "test"},
	})
	w.T.Cleanup(h.Close)
	return h
}

// inside returns the holder of a process within the command of a lease.
func (w *world) inside(l *Lease) *Holder {
	h := w.otherProcess()
	h.Journal.Within = l.record.RequestID
	return h
}

// report is a [Reporter] that remembers its lines.
type report struct{ holdertest.Lines }

func (r *report) Waiting(*Wait) (stop func()) { return func() {} }

// record returns the record of a handle; the zero Record if the handle is gone.
func (w *world) record(h lockfile.Handle) lockfile.Record {
	r, _ := h.Read()
	return r
}

// take acquires a lease into a handle that others may know.
func (w *world) take(r Request) *Lease {
	w.T.Helper()
	r.Type, r.Handle, r.WaitTimeout, r.Outlives = "t", w.Handle("handle"), time.Minute, true
	l, err := w.Acquire(holdertest.Within(w.T), r)
	if err != nil {
		w.T.Fatal(err)
	}
	if err := l.HandOver(holdertest.Within(w.T), HandOver{}, func() error { return nil }); err != nil {
		w.T.Fatal(err)
	}
	return l
}
