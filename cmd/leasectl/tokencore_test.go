package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// No signal makes a program that has a token leave a core, which would have the token, too: neither
// a signal that the program dies of itself, nor one that the runtime handles.
func TestNoCoreHasTheToken(t *testing.T) {
	t.Parallel()
	tokens, token := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "token")
	for path, text := range map[string]string{tokens: "a secret-0123456789abc\n", token: "secret-0123456789abc\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startServer(t, clitest.Build(t, ""), "", "--tokens", tokens, "--pool", "slots=9")
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGTRAP, syscall.SIGSYS} {
		ready := filepath.Join(t.TempDir(), "ready")
		cmd := exec.Command("/bin/sh", "-c", `ulimit -S -c "$(ulimit -H -c)"; exec "$@"`, "sh",
			clitest.Build(t, ""), "exec", "--proxy", s.url, "--token-file", token, "--type", "slots", "--grace-period", "1s", "--quiet", "--",
			"/bin/sh", "-c", `ulimit -c 0; : >"$1"; exec sleep 60`, "sh", ready)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "LEASECTL_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(clitest.Patience); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(ready); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the command does not start")
			}
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.CoreDump() {
			t.Errorf("%v: it leaves a core (%v)", sig, cmd.ProcessState)
		}
		if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
			t.Errorf("%v: it leaves %v (%v)", sig, left, err)
		}
	}
}
