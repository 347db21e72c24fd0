package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// fitEnvironment makes the tests independent of their user. It removes the user's variables for
// leasectl, and makes sure that the path of temporary files is short.
func fitEnvironment() {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "LEASE") {
			os.Unsetenv(name)
		}
	}
	if len(os.TempDir()) > longestTempDir {
		os.Setenv("TMPDIR", "/tmp")
	}
}

// longestTempDir leaves room for /leasectl-test-N/state/keepers/ID, the longest path of a socket
// that tests connect to. With the directory it may have at most 107 bytes.
const longestTempDir = 35

// runTests runs the tests of a package with run, and returns their exit code. Before, it stops
// ignoring hang-ups and interrupts, as under nohup(1) or in the background of a script: otherwise
// all programs that the tests start would ignore them, too. Afterwards it removes what build has
// built.
func runTests(run func() int) int {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	code := run()
	os.RemoveAll(built.dir)
	return code
}
