package keeper

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// A keeper looks after its lease even while its handle cannot be read, but not when the handle
// holds another request.
func TestKeeperOfAnUnreadableHandle(t *testing.T) {
	dir := t.TempDir()
	handle, err := lockfile.OpenHandle(filepath.Join(dir, "handle"))
	if err != nil {
		t.Fatal(err)
	}
	hold := func(request string) {
		t.Helper()
		r := lockfile.Record{State: lockfile.HandleHeld, RequestID: request, Leases: []lockfile.Lease{{Name: "lease1", Generation: 1}}}
		if err := handle.Update(t.Context(), func(tx *lockfile.Tx) error { tx.Record = r; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	hold("request-1")
	k := Keeper{Keepers: &Keepers{StateDir: dir, Debugf: t.Logf}, Handle: handle, Request: "request-1"}
	if !k.stillKept(t.Context()) {
		t.Error("it leaves a lease when the state directory was removed")
	}
	if err := errors.Join(os.Mkdir(k.Keepers.dir(), 0o700), os.WriteFile(k.Keepers.socket(k.Request), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	k.home, err = os.Lstat(k.Keepers.dir())
	if err != nil || !k.stillKept(t.Context()) {
		t.Fatalf("it does not know its own request (%v)", err)
	}
	away := handle.Path() + ".away"
	if err := os.Rename(handle.Path(), away); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, handle.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := handle.Read(); err == nil || !k.stillKept(t.Context()) {
		t.Errorf("it leaves a lease whose handle cannot be read (%v)", err)
	}
	if err := os.Rename(away, handle.Path()); err != nil {
		t.Fatal(err)
	}
	k.Keepers.Dismiss(k.Request)
	if k.stillKept(t.Context()) {
		t.Error("it looks after a lease that was given back")
	}
	hold("request-2")
	if k.stillKept(t.Context()) {
		t.Error("it looks after another request's lease")
	}
}

// A release that the proxy refuses leaves the handle as it was, and the lease its keeper: the keeper does not take the beginning
// of the release for its end.
func TestKeeperBesideARefusedRelease(t *testing.T) {
	dir := t.TempDir()
	handle, err := lockfile.OpenHandle(filepath.Join(dir, "handle"))
	if err != nil {
		t.Fatal(err)
	}
	k := Keeper{Keepers: &Keepers{StateDir: dir, Debugf: t.Logf}, Handle: handle, Request: "request-1"}
	held := lockfile.Record{State: lockfile.HandleHeld, RequestID: k.Request, Leases: []lockfile.Lease{{Name: "lease1", Generation: 1}}}
	kept := make(chan bool, 1)
	err = handle.Update(t.Context(), func(tx *lockfile.Tx) error {
		tx.Record = held
		tx.State = lockfile.HandleReleasing
		if err := tx.Save(); err != nil {
			return err
		}
		go func() { kept <- k.stillKept(t.Context()) }()
		select { // it looks meanwhile
		case is := <-kept:
			t.Errorf("it has decided before the release has ended: %t", is)
			kept <- is
		case <-time.After(50 * time.Millisecond):
		}
		tx.Record = held
		return nil
	})
	if err != nil || !<-kept {
		t.Errorf("it leaves the lease (%v)", err)
	}
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
		changed := make(chan struct{}, 1)
		l := short{files: make(chan struct{})}
		go hear(t.Context(), l, changed)
		begin := time.Now()
		for range 3 {
			<-changed
		}
		l.files <- struct{}{}
		<-changed
		<-changed
		if took := time.Since(begin); took < 2*acceptPause {
			t.Errorf("it looked five times within %v", took)
		}
	})
}
