package holder

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/leasectl/leasectl/internal/holder/holdertest"
)

// A release within the command tells the proxy before it removes the handle. A renewal that the proxy denies in
// between does not count as a loss, whether the journal or the handle says that a release is
// under way.
func TestKeepWhileGivenBack(t *testing.T) {
	for _, tt := range []struct {
		name      string
		noJournal bool
	}{
		{"in the journal", false},
		{"in the handle", true},
	} {
		t.Run(tt.name, func(t *testing.T) { testKeepWhileGivenBack(t, tt.noJournal) })
	}
}

func testKeepWhileGivenBack(t *testing.T, noJournal bool) {
	w := newWorld(t)
	told := make(chan struct{})
	w.Proxy.OnRenew = func(out http.ResponseWriter, r *http.Request) bool {
		<-told
		return holdertest.Lost(out, r)
	}
	l, kept, stop := w.kept(KeepOptions{})
	defer stop()
	tell := sync.OnceFunc(func() { close(told) })
	w.Proxy.OnRelease = func(http.ResponseWriter, *http.Request) bool {
		tell()
		w.awaitDenied(kept)
		return false
	}
	other := w.inside(l)
	if noJournal {
		other.Journal.StateDir = filepath.Join(w.Dir, "none", "none") // cannot be made
	}
	if _, err := other.Release(holdertest.Within(t), l.handle, l.record, Delay{}); err != nil {
		t.Error(err)
	}
	if kept.Err() != nil {
		t.Errorf("lost: %v, want given back", context.Cause(kept))
	}
	if _, err := l.Release(holdertest.Within(t)); err != nil { // at the end of the run
		t.Error(err)
	}
	if noJournal { // the other process could not say that it is over
		w.WantNothingLeft(l.handle, "lease1", "lease1")
		return
	}
	w.WantNothingLeft(l.handle, "lease1")
}
