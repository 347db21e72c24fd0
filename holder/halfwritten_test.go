package holder

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A disk that fills up while a handle is written leaves the handle with a request that was
// never sent. Recover settles that handle. Before this was mended, the handle stayed for good,
// since no journal entry led to it.
func TestHandleWrittenHalfway(t *testing.T) {
	w := newWorld(t)
	r := Request{Type: "t", Count: 1, WaitTimeout: time.Second, Handle: w.handle("handle")}
	before, err := w.Acquire(within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	// A rename cannot replace a folder that is not empty.
	inTheWay := r.Handle.Path() + ".lock.json"
	w.proxy.onRelease = func(http.ResponseWriter, *http.Request) bool {
		os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700)
		return false
	}
	r.Replaces = before.Is
	if _, err := w.Acquire(within(t), r); err == nil {
		t.Fatal("acquired into a handle that cannot be written")
	}
	if asked := w.proxy.asked(); asked != 1 {
		t.Errorf("asked for %d leases, want 1: the second could not be written down", asked)
	}
	if _, err := before.Release(within(t)); err != nil { // as exec does at its end
		before.Leave()
	}
	w.proxy.mend()
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if _, failures := w.Recover(within(t), nil); len(failures) > 0 {
		t.Error(failures)
	}
	w.wantNothingLeft(r.Handle, "lease1", "lease1", "lease1")
}
