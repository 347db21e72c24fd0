//go:build failpoint

package holder

import (
	"os"
	"syscall"
)

var failpointVariables = []string{"LEASECTL_FAILPOINT"}

// failpoint kills the process if LEASECTL_FAILPOINT is the name of the place.
func failpoint(name string) {
	if os.Getenv("LEASECTL_FAILPOINT") == name {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}
