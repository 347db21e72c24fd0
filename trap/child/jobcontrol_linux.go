package child

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/trap"
	"github.com/leasectl/leasectl/trap/internal/sys"
)

// stopAction is what SIGTSTP does. It belongs to the process, so this does too.
// The runtime installs a handler at the first Notify and never takes it away: a
// process without a child could not be stopped by ^Z any more.
var stopAction struct {
	sync.Mutex
	children int        // that want it caught
	handler  sys.Action // the runtime's, while it is not installed
}

// catchStop sends SIGTSTP to c, unless it is ignored.
func catchStop(c chan<- os.Signal) {
	stopAction.Lock()
	defer stopAction.Unlock()
	if trap.Ignored(syscall.SIGTSTP) {
		return
	}
	signal.Notify(c, syscall.SIGTSTP)
	stopAction.children++
	if !stopAction.handler.Default() {
		sys.SetAction(syscall.SIGTSTP, &stopAction.handler)
		stopAction.handler = sys.Action{}
	}
}

// releaseStop ends all that is sent to c, and gives SIGTSTP its default action
// when nobody wants it any more.
func releaseStop(c chan<- os.Signal) {
	signal.Stop(c)
	stopAction.Lock()
	defer stopAction.Unlock()
	if trap.Ignored(syscall.SIGTSTP) {
		return
	}
	stopAction.children--
	if stopAction.children > 0 {
		return
	}
	if handler, err := sys.SetAction(syscall.SIGTSTP, &sys.DefaultAction); err == nil {
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
	sys.ForkLock.Lock() // nobody should inherit the actions set here
	defer sys.ForkLock.Unlock()
	stopAction.Lock()
	defer stopAction.Unlock()
	old, err := sys.SetAction(sig, &sys.IgnoreAction)
	if err != nil {
		return false
	}
	defer sys.SetAction(sig, &old)

	mark := syscall.SIGTTIN
	if sig == mark {
		mark = syscall.SIGTTOU
	}
	pid := unix.Getpid()
	sys.Blocked(mark, func() {
		tid := unix.Gettid()
		sys.Blocked(sig, func() {
			unix.Tgkill(pid, tid, mark)
			unix.Tgkill(pid, tid, sig)
			syscall.Kill(0, sig) // ignored by our other threads
			sys.SetAction(sig, &sys.DefaultAction)
		})
		if continued = !sys.Pending(mark); !continued {
			discard(mark)
		}
	})
	return continued
}

// discard drops a pending signal: ignoring it does (sigaction(2)).
func discard(sig syscall.Signal) {
	if old, err := sys.SetAction(sig, &sys.IgnoreAction); err == nil {
		sys.SetAction(sig, &old)
	}
}
