package socket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A server whose backlog is full listens all the same: nobody may take its socket.
func TestListenInABusyServer(t *testing.T) {
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
	l, done, err := Listen(t.Context(), path)
	if _, taken := errors.AsType[TakenError](err); !taken {
		t.Errorf("listening in the place of a server that is busy: %v, %v", l, err)
	}
	if err == nil {
		done()
	}
}

// Only a refused connection shows that nobody listens. A socket of another kind is not removed,
// nor is any socket while this process has no free descriptor to find out.
func TestListenInDoubt(t *testing.T) {
	dir := t.TempDir()
	datagrams, err := net.ListenPacket("unixgram", filepath.Join(dir, "datagrams"))
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	live, err := net.Listen("unix", filepath.Join(dir, "live"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	refused := func(path string, want error) {
		t.Helper()
		if err := removeDead(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	refused(datagrams.LocalAddr().String(), syscall.EPROTOTYPE)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	refused(live.Addr().String(), syscall.EMFILE)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
}
