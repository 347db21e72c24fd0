package child

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
	"github.com/leasectl/leasectl/trap"
)

// stopAction gives SIGTSTP its default action while no child lives. The runtime
// installs a handler at the first Notify and never removes it, so ^Z could not
// stop this process after its first child. An action belongs to the process, so
// the variable is global.
var stopAction struct {
	sync.Mutex
	children int        // children that live
	handler  sys.Action // the runtime's handler, while the default is installed
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

// releaseStop gives SIGTSTP its default action after the last child.
func releaseStop() {
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

// suspend stops our process group, the shell's job, as the terminal would have. It returns true
// when the group was continued, and false at once if the kernel does not stop the group because
// nobody could continue it.
//
// suspend must not return before the stop is over. So our own signal is sent to this thread and
// blocked there: it takes effect before the call that unblocks it returns. It is sent before
// the other processes of the group get theirs: a shell that sees them stop may continue the
// group before this thread has stopped, and SIGCONT discards pending stop signals (POSIX,
// 2.4.1). SIGCONT also discards a second stop signal, the mark, which stays blocked: if the
// mark is still pending at the end, there was no SIGCONT.
func suspend(sig syscall.Signal) (continued bool) {
	sys.ForkLock.Lock() // no new process may inherit the actions set here
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
