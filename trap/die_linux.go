package trap

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
)

// Die ends this process by a signal, so that its parent sees which one ended it. It does not
// return, no deferred call runs, and no core is written. If the kernel does not let the signal
// end the process, as in the first process of a container, Die exits with 128+n.
func Die(sig syscall.Signal) {
	runtime.LockOSThread()
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // the core would be ours, not the child's
	sys.SetAction(sig, &sys.DefaultAction)
	unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
	os.Exit(128 + int(sig))
}
