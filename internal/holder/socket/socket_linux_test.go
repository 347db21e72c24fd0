package socket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/lockfile"
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

// A server that begins to listen after an earlier server's socket was found dead keeps its
// socket, even if the file system gives it the inode number of the dead one.
func TestListenAfterTheSocketWasFoundDead(t *testing.T) {
	for range 10 {
		path := filepath.Join(t.TempDir(), "socket")
		earlier, _, err := Listen(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		earlier.Close() // as a kill does, without the removal
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		dead, err := findDead(path)
		if err != nil || dead == nil {
			t.Fatalf("the dead socket is %v, %v", dead, err)
		}
		_, done, err := Listen(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		err = remove(path, dead)
		if _, taken := errors.AsType[TakenError](err); !taken {
			t.Errorf("removing the socket of another server: %v", err)
		}
		if listens, err := Accepts(path); !listens || err != nil {
			t.Errorf("the other server listens: %t, %v", listens, err)
		}
		done()
		if err := remove(path, dead); err != nil {
			t.Errorf("removing a socket that is gone: %v", err)
		}
	}
}

// Of servers that start at the same time in the place of a killed one, each that listens keeps
// its socket. Whoever finds another at the replacement leaves the dead socket to that one.
func TestServersReplaceADeadSocketInTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	earlier, _, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	earlier.Close() // as a kill does, without the removal
	taken := func(err error) bool {
		_, is := errors.AsType[TakenError](err)
		return is
	}
	err = lockfile.TryLock(path+".lock", func() error { // as another server does
		if _, _, err := Listen(t.Context(), path); !taken(err) {
			t.Errorf("listening while another server replaces the socket: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	defer syscall.Umask(syscall.Umask(0o022)) // calls of one process may restore each other's
	var servers sync.WaitGroup
	var listening atomic.Int32
	for range 8 {
		servers.Go(func() {
			switch _, done, err := Listen(t.Context(), path); {
			case err == nil:
				listening.Add(1)
				t.Cleanup(done)
			case !taken(err):
				t.Error(err)
			}
		})
	}
	servers.Wait()
	if n := listening.Load(); n != 1 {
		t.Errorf("%d servers listen", n)
	}
	if listens, err := Accepts(path); !listens || err != nil {
		t.Errorf("one can be reached: %t, %v", listens, err)
	}
	if _, err := os.Lstat(path + ".lock"); err == nil {
		t.Error("the lock is left")
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
		if _, err := findDead(path); !errors.Is(err, want) {
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
