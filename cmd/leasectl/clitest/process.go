package clitest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/proxyclient"
)

// LiveLog is the output of a process so far. The log of a proxy is the only witness of grants and
// ends of leases.
type LiveLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *LiveLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *LiveLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ShortDir makes a folder until the test ends. Its path is short, since the path of a socket in it
// may have at most 107 bytes.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "leasectl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// NewClient returns a client of a proxy, which is closed when the test ends.
func NewClient(t *testing.T, proxy string) *proxyclient.Client {
	t.Helper()
	client, err := proxyclient.New(proxyclient.Options{URL: proxy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// NewPipe returns a pipe, whose ends are closed when the test ends.
func NewPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Await blocks until so returns true. If it never does, the test fails and prints the log.
func Await(t *testing.T, log fmt.Stringer, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s\n%s", what, log)
		}
	}
}

// Promptly runs f up to three times, until f returns a time of at most most. A slow machine may be
// late once, but a bug is late each time.
func Promptly(t *testing.T, most time.Duration, f func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 3 {
		took = append(took, f())
		if took[len(took)-1] <= most || t.Failed() {
			return
		}
	}
	t.Errorf("it took %v, want %v at most", took, most)
}

// ExitCode returns the exit code of a process from the error of its Run or Wait: -1 if a signal
// ended it, -2 if it was not started or its output failed.
func ExitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -2
}

// Lives tells whether a process exists and is no zombie. A process with several threads is a zombie
// before its last thread has closed the files; such a process counts as living.
func Lives(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !bytes.Contains(status, []byte("State:\tZ")) && !bytes.Contains(status, []byte("State:\tX")) {
		return err == nil
	}
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(threads) > 1
}

func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Patience bounds the waits of tests. Only a failing test waits so long.
const Patience = 60 * time.Second
