// Package clitest runs leasectl for tests, as processes: it builds the program, starts proxies with
// clients around them, stands between the two, and says afterwards which leases were held and which
// processes are left.
//
// A [World] is a proxy with a state directory and a folder for its clients. Its log is the only
// witness of grants and ends of leases: [World.WantHeld] reads it. A [Relay] between clients and
// the proxy swallows requests or answers. A [DurableServer] is killed and started again.
package clitest

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// fitEnvironment makes the tests independent of their user. It removes the user's variables for
// leasectl, and LC_ALL: bash warns if the machine lacks that locale. It makes sure that the path of
// temporary files is short. It also turns off the second by which the race detector delays the end
// of every process.
func fitEnvironment() {
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "LEASE") {
			os.Unsetenv(name)
		}
	}
	os.Unsetenv("LC_ALL")
	if len(os.TempDir()) > longestTempDir {
		os.Setenv("TMPDIR", "/tmp")
	}
}

// longestTempDir leaves room for /leasectl-test-N/state/keepers/ID, the longest path of a socket
// that tests connect to. With the directory it may have at most 107 bytes.
const longestTempDir = 35

// Run runs the tests of a package with run, and returns their exit code. Before, it makes
// them independent of their user's environment, and stops ignoring hang-ups and interrupts, as
// under nohup(1) or in the background of a script: otherwise all programs that the tests start
// would ignore them, too. Afterwards it removes the programs that [Build] has built. TestMain calls
// Run.
func Run(run func() int) int {
	fitEnvironment()
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	code := run()
	os.RemoveAll(built.dir)
	return code
}
