package holder

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// A server that has no room for another connection just now listens all the same: nobody
// takes its socket from it.
func TestListenSocketOfABusyServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	server, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(server)
	if err := errors.Join(syscall.Bind(server, &syscall.SockaddrUnix{Name: path}), syscall.Listen(server, 0)); err != nil {
		t.Fatal(err)
	}
	for { // it accepts nothing
		conn, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	l, done, err := ListenSocket(t.Context(), path)
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("listening in the place of a server that is busy: %v, %v", l, err)
	}
	if err == nil {
		done()
	}
}
