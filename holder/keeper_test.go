package holder

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// A keeper looks after its lease even while its handle cannot be read, but not when the handle
// holds another request.
func TestKeeperOfAnUnreadableHandle(t *testing.T) {
	w := newWorld(t)
	handle := w.handle("handle")
	hold := func(request string) {
		t.Helper()
		w.write(handle, lockfile.Record{State: lockfile.StateHeld, RequestID: request, Leases: []lockfile.Lease{{Name: "lease1", Generation: 1}}})
	}
	hold("request-1")
	k := keeper{h: w.Holder, handle: handle, request: "request-1"}
	if !k.stillKept() {
		t.Error("it leaves a lease when the state directory was removed")
	}
	if err := errors.Join(os.Mkdir(w.keepers.dir(), 0o700), os.WriteFile(w.keepers.socket(k.request), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if !k.stillKept() {
		t.Fatal("it does not know its own request")
	}
	away := handle.Path() + ".away"
	if err := os.Rename(handle.Path(), away); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, handle.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := handle.Read(); err == nil || !k.stillKept() {
		t.Errorf("it leaves a lease whose handle cannot be read (%v)", err)
	}
	if err := os.Rename(away, handle.Path()); err != nil {
		t.Fatal(err)
	}
	k.h.keepers.dismiss(k.request)
	if k.stillKept() {
		t.Error("it looks after a lease that was given back")
	}
	hold("request-2")
	if k.stillKept() {
		t.Error("it looks after another request's lease")
	}
}

// The socket of a keeper is as old as its last renewal, however long the keeper has run: recover
// leaves a killed keeper's socket for a day, since it says that nobody renews the lease.
func TestAgeOfAKeepersSocket(t *testing.T) {
	w := newWorld(t)
	w.proxy.renewEvery = 10 * time.Millisecond
	l := w.take(Request{})
	request := l.record.RequestID
	if err := lockfile.MakeDir(w.keepers.dir()); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(within(t))
	go func() { ended <- w.Keep(ctx, l.handle, request, os.Getpid(), func() { close(ready) }) }()
	<-ready
	path, old := w.keepers.socket(request), time.Now().Add(-48*time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	// One renewal may be under way. The one after the next is sent when the next is over.
	for before := w.proxy.renewed(); w.proxy.renewed() < before+3 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
	}
	if info, err := os.Lstat(path); err != nil || time.Since(info.ModTime()) > time.Hour {
		t.Errorf("the keeper renews, and its socket stays old (%v)", err)
	}
	stop()
	<-ended
}

// short is a listener of a machine that has too many open files, until a file is closed.
type short struct {
	files chan struct{}
	net.Listener
}

func (l short) Accept() (net.Conn, error) {
	select {
	case <-l.files:
		_, c := net.Pipe()
		return c, nil
	default:
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
}

// A keeper whose machine has too many open files for a while notices changes of its handle
// during and after that time, without a busy loop.
func TestKeeperWithoutFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper{changed: make(chan struct{}, 1)}
		l := short{files: make(chan struct{})}
		go k.hear(t.Context(), l)
		begin := time.Now()
		for range 3 {
			<-k.changed
		}
		l.files <- struct{}{}
		<-k.changed
		<-k.changed
		if took := time.Since(begin); took < 2*acceptPause {
			t.Errorf("it looked five times within %v", took)
		}
	})
}
