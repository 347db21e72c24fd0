package child

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

// Signals that the wrapper inherited as ignored are ignored by its command too.
func TestInheritedIgnoredSignals(t *testing.T) {
	out, w := testenv.Report(t)
	wrapper, env := testenv.Self("wrapper", "/bin/sh", "-c", `
		kill -HUP $$; kill -INT $$; echo alive
		grep SigIgn: /proc/self/status || echo no /proc`)
	argv := append(testenv.Shell(`trap '' HUP INT TSTP; exec "$0" "$@"`), wrapper...)
	start(t, Command{Args: argv, Env: env, Stdout: w})
	w.Close()
	out.Want("alive")
	line := out.Next()
	if line == "no /proc" {
		return
	}
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(line, "SigIgn:")), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTSTP} {
		if mask>>(sig-1)&1 == 0 {
			t.Errorf("the command does not ignore %v (mask %x)", sig, mask)
		}
	}
}
