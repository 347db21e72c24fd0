package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// localProxy starts the local proxy of a directory, as --proxy local does. The proxy stops after it
// has been idle for the time idle.
func (w *world) localProxy(dir string, idle time.Duration, args ...string) (server *exec.Cmd, log *clitest.LiveLog) {
	w.T.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.T.Fatal(err)
	}
	server, log = w.Command(append([]string{"serve", "--socket", filepath.Join(dir, "local.sock"), "--pool", "install=1",
		"--local-of", dir, "--local-idle", idle.String()}, args...)...), new(clitest.LiveLog)
	server.Stderr = log
	if err := server.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { server.Process.Kill() })
	w.Await("the local proxy to listen", func() bool { return strings.Contains(log.String(), "listening on") })
	return server, log
}

// If its directory was removed, or another local proxy has taken the directory over, a local proxy
// ends after its idle time and leaves the other proxy alone. If its store is gone it may end with
// that error instead.
func TestLocalProxyOfRemovedDirectory(t *testing.T) {
	t.Parallel()
	const idle = 500 * time.Millisecond // time enough to remove a directory
	program := clitest.Build(t, "")
	for _, tt := range []struct {
		name   string
		store  bool
		remove func(w *world, dir string)
	}{
		{"directory", false, func(_ *world, dir string) { os.RemoveAll(dir) }},
		{"directory with the store", true, func(_ *world, dir string) { os.RemoveAll(dir) }},
		{"socket", true, func(_ *world, dir string) { os.Remove(filepath.Join(dir, "local.sock")) }},
		{"replaced", false, func(w *world, dir string) {
			os.RemoveAll(dir)
			other, log := w.localProxy(dir, time.Hour)
			w.T.Cleanup(func() {
				w.Run(0, "exec", "--proxy", "unix://"+filepath.Join(dir, "local.sock"), "--type", "install", "--", "true")
				other.Process.Signal(syscall.SIGTERM)
				if err := other.Wait(); err != nil {
					w.T.Errorf("the other one: %v\n%s", err, log)
				}
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, program, "unused=1")
			dir := w.Path("local")
			var args []string
			if tt.store {
				args = []string{"--data", filepath.Join(dir, "local")}
			}
			server, log := w.localProxy(dir, idle, args...)
			tt.remove(w, dir)
			hang := time.AfterFunc(clitest.Patience, func() { server.Process.Kill() })
			defer hang.Stop()
			code := clitest.ExitCode(server.Wait())
			if gone := tt.store && tt.name != "socket" && code == exitStore; code != 0 && !gone {
				t.Errorf("it did not end by itself: exit code %d\n%s", code, log)
			}
		})
	}
}
