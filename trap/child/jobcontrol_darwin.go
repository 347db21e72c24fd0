package child

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/trap"
)

// catchStop sends SIGTSTP to c, unless it is ignored. The runtime does not give
// it back its default action: from now on ^Z only stops a child.
func catchStop(c chan<- os.Signal) {
	if !trap.Ignored(syscall.SIGTSTP) {
		signal.Notify(c, syscall.SIGTSTP)
	}
}

// releaseStop ends all that is sent to c.
func releaseStop(c chan<- os.Signal) { signal.Stop(c) }

// suspend stops our process group and returns true when it is continued. SIGSTOP
// stands in for sig, which the runtime may have caught for good. Unlike sig it
// also stops a group that nobody could continue, such as that of a session
// leader, so there it is not sent and suspend returns false.
func suspend(syscall.Signal) (continued bool) {
	session, err := unix.Getsid(0)
	parent, parentErr := unix.Getsid(os.Getppid())
	if err != nil || parentErr != nil || parent != session {
		return false
	}
	return syscall.Kill(0, syscall.SIGSTOP) == nil
}
