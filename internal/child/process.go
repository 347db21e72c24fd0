package child

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
)

// Process is a child that [Start] started, and the process group it leads. While the child
// lives, it also gets the SIGTSTP and SIGCONT that this process gets. All methods may be called
// from several goroutines, also after the end of the child.
type Process struct {
	group     *group
	wantsPeak bool
	cgroup    string        // that the child has to itself, if wantsPeak; "": none
	done      chan struct{} // closed when the child has ended, and the fields below are written
	status    Status
	peak      Peak
}

// Pid returns the process id of the child, which is also the id of its group.
func (p *Process) Pid() int { return p.group.id }

// Done returns a channel that is closed when the child has ended or, if [Process.Stop] stops
// the child, when its group has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until [Process.Done] is closed and returns how the child ended. It
// does not wait for other processes that hold the child's descriptors.
func (p *Process) Wait() Status {
	<-p.done
	return p.status
}

// Signal sends a signal to the child's whole group. It may be called during a stop, and does
// not change the grace period. After Done the error is [os.ErrProcessDone] and no signal is
// sent: the kernel may have given the id to another process.
//
// With SIGCONT the child also gets the terminal, if it is ours to give.
func (p *Process) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return os.NewSyscallError("kill", syscall.EINVAL)
	}
	return p.group.signal(n)
}

// Stop begins to end the child's group and does not block. It sends sig (0 is none), and
// SIGCONT so that a stopped process sees sig. After the grace period it sends SIGKILL to the
// processes that are left. Done stays open until no process of the group is alive, even if the
// leader ends first; [Process.Wait] returns how the leader ended.
//
// A second Stop sends its signal as well, and ends the group after its own grace period if that
// is over sooner. If the child has ended already, Stop does nothing and returns false:
// processes that a child leaves behind when it ends by itself are left alone.
//
// Done comes later than the grace period, and the milliseconds of a KILL, only if a process
// cannot be killed or the members of the group cannot be listed. A process cannot be killed
// while the kernel is busy with it, or if it runs as another user. Stop gives members up two
// seconds after the KILL, the leader never.
func (p *Process) Stop(sig syscall.Signal, grace time.Duration) (begun bool) {
	return p.group.stop(sig, grace)
}

// Peak returns the peak memory of the command after its end. It returns false before the end,
// if [Command.Peak] was not set, and if the system does not tell.
func (p *Process) Peak() (Peak, bool) {
	select {
	case <-p.done:
	default:
		return Peak{}, false
	}
	return p.peak, p.peak.Bytes > 0
}

// supervise starts the child and stays with it to its end, on one thread: the kernel sends the
// parent-death signal when the thread that started the child ends (prctl(2), PR_SET_PDEATHSIG).
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
		p.group.tty.reclaim(0) // the new process may have got the terminal before it failed
		started <- err
		return
	}
	p.group.id = pid
	j := &job{group: p.group}
	forwarding.Go(func() { j.forward(signals) })
	started <- nil

	for {
		// WaitPeek leaves the zombie, so that its pid stays the id of the group.
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
	close(p.done) // first, so that no caller of Wait waits for the end of the forwarding
	signals.stop(&forwarding)
}
