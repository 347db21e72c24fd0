package trap

import (
	"os"
	"strconv"
	"syscall"
)

// Die ends this process by a signal, so that its parent sees which one ended it. It does not
// return, no deferred call runs, and no core is written. If the signal does not end the
// process, Die exits with 128+n.
//
// The runtime does not give every signal back its default action, but exec does. So Die
// executes a shell, under our process id, which dies by the signal.
func Die(sig syscall.Signal) {
	number, status := strconv.Itoa(int(sig)), strconv.Itoa(128+int(sig))
	syscall.Exec("/bin/sh", []string{"sh", "-c", `ulimit -c 0; kill -"$1" $$; exit "$2"`, "sh", number, status}, nil)
	os.Exit(128 + int(sig))
}
