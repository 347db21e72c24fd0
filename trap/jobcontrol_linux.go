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
// It is the group that must stop: the shell's job, of which nobody but us knows
// that it should. We are a part of it that may not return before the stop is over.
// So our own signal goes to this very thread, where it takes effect before the
// call that lets it in returns; and it is pending before the others get theirs,
// since whoever sees them stop may continue the group before we have stopped, and
// SIGCONT discards the stop signals that are pending (POSIX, 2.4.1). By the same
// rule another such signal, which is not let in, tells whether there was a SIGCONT.
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

	mark := syscall.SIGTTIN
	if sig == mark {
		mark = syscall.SIGTTOU
	}
	pid := unix.Getpid()
	blocked(mark, func() {
		tid := unix.Gettid()
		blocked(sig, func() {
			unix.Tgkill(pid, tid, mark)
			unix.Tgkill(pid, tid, sig)
			syscall.Kill(0, sig) // ignored by our other threads
			setAction(sig, &sigaction{})
		})
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
