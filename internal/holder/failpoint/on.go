//go:build failpoint

package failpoint

import (
	"os"
	"syscall"
)

// Variables are passed on to background processes.
var Variables = []string{"LEASECTL_FAILPOINT"}

// Here kills the process if LEASECTL_FAILPOINT is the name of the place.
func Here(name string) {
	if os.Getenv("LEASECTL_FAILPOINT") == name {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}
