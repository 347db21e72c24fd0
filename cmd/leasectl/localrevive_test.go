package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
)

// If the local proxy was killed, commands that hold a lease of it or wait for one start it anew.
// Before, only the next command did. Without a next command, waiting commands ended with exit code
// 69, and the others lost their lease.
func TestKilledLocalProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "unused=1")
	exec := func(script string) (wait func() int) {
		var stderr bytes.Buffer
		cmd := w.Command("exec", "--proxy", "local", "--pool", "install=1", "--type", "install", "--", "sh", "-c", script)
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return func() int {
			code := clitest.ExitCode(cmd.Wait())
			t.Logf("%s", &stderr)
			return code
		}
	}
	holds := exec("touch holds; until test -e go; do sleep 0.01; done; exit 3")
	w.Await("a command to hold the lease", func() bool { return clitest.Exists(w.Path("holds")) })
	waits := exec("exit 4")
	w.Await("another to wait", func() bool {
		return bytes.Contains([]byte(w.Run(0, "status", "--proxy", "local", "--output", "json")), []byte(`"waiting": 1`))
	})

	before := w.localServer()
	syscall.Kill(before, syscall.SIGKILL)
	w.Await("the local proxy to be started anew", func() bool { now := w.localServer(); return now != 0 && now != before })
	if err := os.WriteFile(w.Path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if codes := []int{holds(), waits()}; !slices.Equal(codes, []int{3, 4}) {
		t.Errorf("the commands ended with %v, want 3 and 4", codes)
	}
	syscall.Kill(w.localServer(), syscall.SIGTERM)
}

// If the local proxy is gone and cannot be started, a release soon gives up and says why. Before,
// exec ended ten seconds after its command.
func TestLocalProxyThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ spoil, says string }{
		"its pools are unknown": {"rm state/local.pools", "say which pools it is to be started with"},
		"its store is damaged":  {"echo damaged >state/local/leases.db", "it is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, clitest.Build(t, ""), "unused=1")
			clitest.Promptly(t, cleanup.Timeout/2, func() (took time.Duration) {
				os.RemoveAll(w.Path("state"))
				w.Run(0, "exec", "--proxy", "local", "--pool", "install=1", "--type", "install", "--", "true")
				var stderr bytes.Buffer
				cmd := w.Command("exec", "--proxy", "local", "--type", "install", "--",
					"sh", "-c", fmt.Sprintf("kill -KILL %d; %s; touch ends; exit 3", w.localServer(), tt.spoil))
				cmd.Stderr = &stderr
				err := cmd.Run()
				ended, failed := os.Stat(w.Path("ends"))
				if failed != nil {
					t.Fatal(failed)
				}
				if code := clitest.ExitCode(err); code != 3 || !strings.Contains(stderr.String(), tt.says) {
					t.Errorf("exit code %d, want 3; it said, without %q:\n%s", code, tt.says, &stderr)
				}
				return time.Since(ended.ModTime())
			})
		})
	}
}

// localServer returns the pid of the local proxy; 0 if there is none.
func (w *world) localServer() int {
	for _, pid := range w.Processes() {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(line, []byte("\x00--local-of\x00")) {
			return pid
		}
	}
	return 0
}
