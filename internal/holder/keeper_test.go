package holder

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/lockfile"
)

// The socket of a keeper is as old as its last renewal, however long the keeper has run: recover
// leaves a killed keeper's socket for a day, since it says that nobody renews the lease.
func TestAgeOfAKeepersSocket(t *testing.T) {
	w := newWorld(t)
	w.Proxy.RenewEvery = 10 * time.Millisecond
	l := w.take(Request{})
	request := l.record.RequestID
	if err := lockfile.MakeDir(filepath.Join(w.Dir, "keepers")); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(holdertest.Within(t))
	go func() { ended <- w.Keep(ctx, l.handle, request, os.Getpid(), func() { close(ready) }) }()
	<-ready
	path, old := filepath.Join(w.Dir, "keepers", request), time.Now().Add(-48*time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	// One renewal may be under way. The one after the next is sent when the next is over.
	for before := w.Proxy.Renewed(); w.Proxy.Renewed() < before+3 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
	}
	if info, err := os.Lstat(path); err != nil || time.Since(info.ModTime()) > time.Hour {
		t.Errorf("the keeper renews, and its socket stays old (%v)", err)
	}
	stop()
	<-ended
}
