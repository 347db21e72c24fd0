package proxyclient

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Another user who listens on a socket where all may put one gets neither a request nor a token.
func TestSocketOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	want(t, err)
	defer syscall.Close(fd)
	want(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	want(t, os.Chmod(dir, 0o777))
	listening := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends as another user
		_, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, 65532, 65532, 65532)
		if failed != 0 {
			listening <- failed
			return
		}
		listening <- syscall.Listen(fd, 1) // who calls this is the peer
	}()
	if err := <-listening; errors.Is(err, syscall.EPERM) {
		t.Skip("this root cannot act as another user")
	} else if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{URL: "unix://" + path, Token: "a-token-of-some-length"})
	want(t, err)
	defer c.Close()
	_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "user 65532 listens on socket") {
		t.Errorf("error %v", err)
	}
	conn, _, err := syscall.Accept(fd)
	want(t, err)
	defer syscall.Close(conn)
	if n, err := syscall.Read(conn, make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the other user got %d bytes, %v", n, err)
	}
}
