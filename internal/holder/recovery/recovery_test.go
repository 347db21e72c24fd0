package recovery

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/leaseapi"
)

// A disk that fills up while a handle is written leaves the handle with a request that was
// never sent. Recover settles that handle. Before this was mended, the handle stayed for good,
// since no journal entry led to it.
func TestHandleWrittenHalfway(t *testing.T) {
	w := newWorld(t)
	r := holder.Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, WaitTimeout: time.Second, Handle: w.Handle("handle")}
	before, err := w.Acquire(holdertest.Within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	// A rename cannot replace a folder that is not empty.
	inTheWay := r.Handle.Path() + ".lock.json"
	w.Proxy.OnRelease = func(http.ResponseWriter, *http.Request) bool {
		os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700)
		return false
	}
	r.Replaces = before.Is
	before.Tell(holder.Outcome{Word: leaseapi.OutcomeThrottled}) // so that a release goes ahead
	if _, err := w.Acquire(holdertest.Within(t), r); err == nil {
		t.Fatal("acquired into a handle that cannot be written")
	}
	if asked := w.Proxy.Asked(); asked != 1 {
		t.Errorf("asked for %d leases, want 1: the second could not be written down", asked)
	}
	if _, err := before.Release(holdertest.Within(t)); err != nil { // as exec does at its end
		before.Leave()
	}
	w.Proxy.Mend()
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if _, failures := Run(holdertest.Within(t), w.Holder, nil); len(failures) > 0 {
		t.Error(failures)
	}
	w.WantNothingLeft(r.Handle, "lease1", "lease1", "lease1")
}
