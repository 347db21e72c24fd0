package child

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/trap"
)

// catchStop sends SIGTSTP to c, unless it is ignored. The runtime never
// gives the signal its default action back, so ^Z stops only children from now on.
func catchStop(c chan<- os.Signal) {
	if !trap.Ignored(syscall.SIGTSTP) {
		signal.Notify(c, syscall.SIGTSTP)
	}
}

// releaseStop does nothing: see catchStop.
func releaseStop() {}

// suspend stops our process group and returns true when it is continued. It sends SIGSTOP
// instead of sig, which the runtime may catch. SIGSTOP would also stop a group that nobody can
// continue, such as that of a session leader. For such a group suspend sends nothing and
// returns false.
func suspend(syscall.Signal) (continued bool) {
	session, err := unix.Getsid(0)
	parent, parentErr := unix.Getsid(os.Getppid())
	if err != nil || parentErr != nil || parent != session {
		return false
	}
	return syscall.Kill(0, syscall.SIGSTOP) == nil
}
