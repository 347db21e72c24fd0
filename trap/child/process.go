package child

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/trap/internal/sys"
)

// Process is a child that [Start] started, and the process group it leads. As
// long as it lives it is also sent the SIGTSTP and SIGCONT that this process
// gets. All methods may be called from several goroutines, and after its end.
type Process struct {
	group     *group
	wantsPeak bool
	cgroup    string        // that it has to itself, if its peak is wanted; "" if none
	done      chan struct{} // closed when the child has ended, and the fields below are written
	status    Status
	peak      Peak
}

// Pid is the process id of the child, which is also that of its group.
func (p *Process) Pid() int { return p.group.id }

// Done is closed when the child has ended; if [Process.Stop] stops it, when its
// group has.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until [Process.Done] is closed and returns how the child ended. It
// does not wait for other processes that hold the child's descriptors.
func (p *Process) Wait() Status {
	<-p.done
	return p.status
}

// Signal sends a signal to the child's whole group, also while a stop is under
// way, whose time it does not change. After Done it is [os.ErrProcessDone], and
// nobody gets the signal: the kernel may have given the id to another process.
//
// With SIGCONT the child also gets the terminal, if it is ours to give.
func (p *Process) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return os.NewSyscallError("kill", syscall.EINVAL)
	}
	return p.group.signal(n)
}

// Stop begins to end the child's group and does not block: it sends sig (0 is
// none), and SIGCONT so that a stopped process sees it, gives the group the
// grace period to end, and sends SIGKILL to what is left. From the return of
// Stop until no process of the group is alive Done stays open, also if the
// leader ends first; then [Process.Wait] returns how the leader ended.
//
// A second Stop sends its signal as well, and ends the group when its own grace
// period is over, if that is sooner. If the child has ended before, Stop does
// nothing and returns false: the processes that a child leaves behind which ended by
// itself are left alone.
//
// Done comes later than the grace period, and the milliseconds of a KILL, only
// if the kernel cannot end a process, or may not: one that runs as another user.
// Members of the group are given up two seconds after the KILL, the leader never.
func (p *Process) Stop(sig syscall.Signal, grace time.Duration) (begun bool) {
	return p.group.stop(sig, grace)
}

// Peak returns the peak memory of the command after its end; false before, if
// [Command.Peak] was not set, or if the system does not tell.
func (p *Process) Peak() (Peak, bool) {
	select {
	case <-p.done:
	default:
		return Peak{}, false
	}
	return p.peak, p.peak.Bytes > 0
}

// supervise starts the child and stays with it to its end, on one thread: the
// parent-death signal is bound to the death of the thread that started the
// child (prctl(2), PR_SET_PDEATHSIG).
func (p *Process) supervise(start func() (pid int, err error), started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer p.group.tty.close()

	// A SIGTSTP that arrives before it is caught stops this process as if there were
	// no child.
	signals := catchJobSignals()
	pid, err := start()
	var forwarding sync.WaitGroup
	if err != nil {
		signals.stop(&forwarding)
		p.group.tty.reclaim(0) // the new process may have been given it before it failed
		started <- err
		return
	}
	p.group.id = pid
	j := &job{group: p.group}
	forwarding.Go(func() { j.forward(signals) })
	started <- nil

	for {
		// The zombie stays, so that its id stays the group's.
		info, err := sys.Waitid(pid, sys.WaitEnd|sys.WaitStop|sys.WaitPeek)
		if _, stopped := info.StopSignal(); err != nil || !stopped {
			break
		}
		j.stopped()
	}
	var usage unix.Rusage
	p.status, usage = p.group.reap()
	if p.wantsPeak {
		p.peak = peakOf(p.cgroup, int64(usage.Maxrss)*maxRSSUnit)
	}
	close(p.done) // first: no caller of Wait waits for the forwarding of signals to end
	signals.stop(&forwarding)
}
