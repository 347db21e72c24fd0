package proxyclient

import (
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"
)

// A file of authorities that hangs, as on a network file system, holds up only the call
// that reads it.
func TestAuthorityThatHangs(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(grant))
	defer srv.Close()
	file := caFile(t, srv)
	c, err := New(Options{URL: srv.URL, CAFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	lease := func(op, arg uintptr) uintptr {
		v, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), op, arg)
		if errno != 0 {
			t.Skipf("no leases of files: %v", errno)
		}
		return v
	}
	// While a process has a lease of a file (fcntl(2), F_SETLEASE), who opens the file waits.
	lease(syscall.F_SETLEASE, syscall.F_WRLCK)
	read := make(chan bool)
	go func() { read <- c.reloadRoots(c.transport) }()
	for lease(syscall.F_GETLEASE, 0) == syscall.F_WRLCK { // until the file is opened
		time.Sleep(time.Millisecond)
	}
	if !c.mu.TryLock() {
		t.Error("other calls wait for the file")
	} else {
		c.mu.Unlock()
	}
	f.Close() // ends the lease
	if <-read {
		t.Error("the same authorities have replaced themselves")
	}
}
