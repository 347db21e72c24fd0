package recovery

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
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: holdertest.NewWorld(t)}
	w.Holder = w.holderIn(w.Dir)
	t.Cleanup(w.Close)
	return w
}

// holderIn returns a holder with another state directory.
func (w *world) holderIn(stateDir string) *holder.Holder {
	return holder.New(holder.Options{
		StateDir: stateDir, Owner: "job-1", Report: new(report),
		Proxy: dial.Options{URL: w.Proxy.URL, Version: "test"},
	})
}

// report is a reporter that remembers its lines.
type report struct{ holdertest.Lines }

func (r *report) Waiting(*holder.Wait) (stop func()) { return func() {} }
