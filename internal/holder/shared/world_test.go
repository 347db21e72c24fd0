package shared

import (
	"testing"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
)

// world is a holder with a state directory and a proxy.
type world struct {
	*holder.Holder
	holdertest.World
	report *report
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: holdertest.NewWorld(t), report: new(report)}
	w.Holder = w.reportingTo(w.report)
	return w
}

// reportingTo returns the holder of another process of the job.
func (w *world) reportingTo(r holder.Reporter) *holder.Holder {
	h := holder.New(holder.Options{
		StateDir: w.Dir, Owner: "job-1", Report: r,
		Proxy: dial.Options{URL: w.Proxy.URL, Version: "test"},
	})
	w.T.Cleanup(h.Close)
	return h
}

// report is a reporter that remembers its lines.
type report struct{ holdertest.Lines }

func (r *report) Waiting(*holder.Wait) (stop func()) { return func() {} }
