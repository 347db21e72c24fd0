package trap

import (
	"os"
	"runtime"
	"sync"
	"syscall"
)

// Child is a process that [Start] started, and the process group it leads. As
// long as it lives it is also sent the SIGTSTP and SIGCONT that this process
// gets. All methods may be called from several goroutines, and after its end.
type Child struct {
	pid  int // of the leader, and of its group
	tty  *terminal
	jobs *jobSignals
	done chan struct{} // closed after the last write of status

	mu       sync.Mutex
	stopping int       // callers of Stop that still need the group's id
	unpinned sync.Cond // stopping became 0
	reaped   bool      // from now on the id may be another's
	status   Status
	halted   bool // stopped, and left so until somebody continues it
}

func newChild() *Child {
	c := &Child{done: make(chan struct{}), tty: openTerminal()}
	c.unpinned.L = &c.mu
	return c
}

// Pid is the process id of the child, which is also that of its group.
func (c *Child) Pid() int { return c.pid }

// Done is closed when the child has ended; if [Child.Stop] stops it, when its
// group has.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait blocks until [Child.Done] is closed and returns how the child ended. It
// waits for nobody else who holds the child's descriptors.
func (c *Child) Wait() Status {
	<-c.done
	return c.status
}

// Signal sends a signal to the child's whole group. After the child's end it is
// [os.ErrProcessDone], and nobody gets the signal: the kernel may have given the
// id to another process by then.
//
// With SIGCONT the child also gets the terminal, if it is ours to give.
func (c *Child) Signal(sig os.Signal) error {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return os.NewSyscallError("kill", syscall.EINVAL)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	if n == syscall.SIGCONT {
		c.tty.lend(c.pid)
	}
	return c.kill(n)
}

// kill signals the group. The caller has seen that the child is not reaped, and
// keeps it so: by mu, or by stopping.
func (c *Child) kill(sig syscall.Signal) error {
	err := syscall.Kill(-c.pid, sig)
	if err == syscall.ESRCH {
		err = syscall.Kill(c.pid, sig) // the leader went to another group
	}
	return os.NewSyscallError("kill", err)
}

// supervise starts the child and stays with it to its end, on one thread: the
// parent-death signal is bound to the death of the thread that started the
// child (prctl(2), PR_SET_PDEATHSIG).
func (c *Child) supervise(start func() (pid int, err error), started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer c.tty.close()

	// Meanwhile, since each takes as long as the other. A stop of ours that comes
	// in between takes effect as one that came before the child.
	caught := make(chan *jobSignals)
	go func() { caught <- catchJobSignals() }()
	pid, err := start()
	c.jobs = <-caught
	if err != nil {
		c.jobs.stop()
		c.tty.reclaim(0) // the new process may have been given it before it failed
		started <- err
		return
	}
	c.pid = pid
	var forwarding sync.WaitGroup
	forwarding.Go(c.forwardJobSignals)
	started <- nil

	for c.awaitStop() {
		c.stopped()
	}
	c.end()
	close(c.done) // nobody has to wait for the rest
	c.jobs.stop()
	forwarding.Wait()
}

// awaitStop blocks until the child stops or ends, and says whether it lives. It
// leaves the zombie, whose id nobody else can get: so whoever holds mu and sees
// that reaped is not set may signal it.
func (c *Child) awaitStop() bool {
	info, err := waitid(c.pid, waitEnd|waitStop|waitPeek)
	return err == nil && info.code == codeStopped
}

// end reaps the child, as soon as no Stop needs its group any more.
func (c *Child) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Before the rest of the group is gone: ^C should reach us by now.
	hadTerminal := c.tty.reclaim(c.pid)
	for c.stopping > 0 {
		c.unpinned.Wait()
	}
	hadTerminal = c.tty.reclaim(c.pid) || hadTerminal // a SIGCONT may have lent it again
	c.status = reap(c.pid)
	c.status.Terminal = c.tty != nil
	c.reaped = true
	if hadTerminal && c.status.Signal != 0 {
		// As a shell does. A command that exits may have meant to change them.
		c.tty.restoreModes()
	}
}
