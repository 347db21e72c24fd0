package trap

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopAction is what SIGTSTP does. It belongs to the process, so this does too.
// The runtime installs a handler at the first Notify and never takes it away: a
// process without a child could not be stopped by ^Z any more.
var stopAction struct {
	sync.Mutex
	children int       // that want it caught
	handler  sigaction // the runtime's, while it is not installed
}

// catchStop sends SIGTSTP to c, unless it is ignored.
func catchStop(c chan<- os.Signal) {
	stopAction.Lock()
	defer stopAction.Unlock()
	if ignored(syscall.SIGTSTP) {
		return
	}
	signal.Notify(c, syscall.SIGTSTP)
	stopAction.children++
	if stopAction.handler.handler != defaultAction {
		setAction(syscall.SIGTSTP, &stopAction.handler)
		stopAction.handler = sigaction{}
	}
}

// releaseStop ends all that is sent to c, and gives SIGTSTP its default action
// when nobody wants it any more.
func releaseStop(c chan<- os.Signal) {
	signal.Stop(c)
	stopAction.Lock()
	defer stopAction.Unlock()
	if ignored(syscall.SIGTSTP) {
		return
	}
	stopAction.children--
	if stopAction.children > 0 {
		return
	}
	if handler, err := setAction(syscall.SIGTSTP, &sigaction{}); err == nil {
		stopAction.handler = handler
	}
}

// suspend stops our process group as the terminal would have. It returns true
// when we were continued, and false at once if the kernel does not stop us: in a
// group that nobody could continue.
//
// The group is the shell's job, and a job with one running process is not a
// stopped one. This process is stopped last and for itself, by a signal to this
// very thread: such a signal has had its effect when the call returns.
func suspend(sig syscall.Signal) (continued bool) {
	forks.Lock() // nobody should inherit the actions set here
	defer forks.Unlock()
	stopAction.Lock()
	defer stopAction.Unlock()
	old, err := setAction(sig, &sigaction{handler: ignoreAction})
	if err != nil {
		return false
	}
	defer setAction(sig, &old)
	syscall.Kill(0, sig)
	// Where a signal is blocked, as it is in a thread that runs the runtime's
	// handler, being ignored does not keep it from becoming pending.
	discard(sig)
	setAction(sig, &sigaction{})

	// SIGCONT discards every stop signal that is pending (POSIX, 2.4.1). One
	// that is kept pending tells afterwards whether there was a SIGCONT.
	mark := syscall.SIGTTIN
	if sig == mark {
		mark = syscall.SIGTTOU
	}
	pid, tid := unix.Getpid(), unix.Gettid()
	blocked(mark, func() {
		unix.Tgkill(pid, tid, mark)
		unix.Tgkill(pid, tid, sig)
		if continued = !pending(mark); !continued {
			discard(mark)
		}
	})
	return continued
}

// discard drops a pending signal: ignoring it does (sigaction(2)).
func discard(sig syscall.Signal) {
	if old, err := setAction(sig, &sigaction{handler: ignoreAction}); err == nil {
		setAction(sig, &old)
	}
}
