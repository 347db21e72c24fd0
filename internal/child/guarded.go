package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
)

// Guarded is a command whose group ends with this process, however this process ends. A guard
// leads the group: a shell that waits for our end, and then kills the group. The group lasts as
// long as one of its processes other than the guard lives, also if the command itself has ended.
// A command that has left the group, as by setsid(2), belongs to it all the same, with the group
// that it may lead; its children elsewhere do not.
type Guarded struct {
	mu      sync.Mutex
	guard   int           // process id of the guard, which is reaped under mu, and id of the group
	command int           // process id of the command, which is reaped under mu, too; zero: there is none
	reaped  bool          // the group's id may be another's
	waiting *os.File      // its end is the end of the guard; see guardScript
	stop    sync.Once     // the KILL after a grace period
	killed  chan struct{} // closed killTime after that KILL: who lives then is not ours to kill
	done    chan struct{}
	status  Status
}

// guardScript is the guard. It ignores the signals that are sent to the group, says when it does,
// and waits for the end of its input, which only this process holds. The kill is to its own group,
// whose id cannot be another's as long as the guard lives.
const guardScript = `trap '' HUP INT QUIT USR1 USR2 ALRM TERM TSTP TTIN TTOU; echo; exec >&-; read -r end; kill -KILL 0`

// StartGuarded starts a command with a guard. lock is a file that only the guard inherits: a lock
// of it, by flock(2), lasts as long as the guard lives, so others can see that the group may still
// be there. The caller closes its own copy. The fields ParentDeath and Peak of c are not used: on
// Linux the kernel also kills the command itself when this process ends.
func StartGuarded(c Command, lock *os.File) (*Guarded, error) {
	path, err := c.path()
	if err != nil {
		return nil, err
	}
	g := &Guarded{killed: make(chan struct{}), done: make(chan struct{})}
	if err := g.startGuard(lock); err != nil {
		return nil, fmt.Errorf("start a guard: %w", err)
	}
	started := make(chan error)
	go g.supervise(path, c, started)
	if err := <-started; err != nil {
		<-g.done // the guard is gone
		return nil, explain(path, err)
	}
	return g, nil
}

// startGuard starts the guard, and returns when it ignores signals.
func (g *Guarded) startGuard(lock *os.File) error {
	input, waiting, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	said, says, err := os.Pipe()
	if err != nil {
		waiting.Close()
		return err
	}
	defer said.Close()
	defer says.Close()
	files, closeNull, err := sys.Descriptors(input, says, nil, lock)
	if err != nil {
		waiting.Close()
		return err
	}
	defer closeNull()
	sys.ForkLock.RLock()
	g.guard, err = sys.StartProcess(shell, []string{shell, "-c", guardScript}, &syscall.ProcAttr{
		Dir: "/", Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	sys.ForkLock.RUnlock()
	if err != nil {
		waiting.Close()
		return err
	}
	g.waiting = waiting
	says.Close()
	if _, err := said.Read(make([]byte, 1)); err != nil {
		g.end()
		return errors.New("it ended at once")
	}
	return nil
}

// Group returns the id of the group.
func (g *Guarded) Group() int { return g.guard }

// Done returns a channel that is closed when no process of the group is left, except one that cannot be
// killed, such as another user's.
func (g *Guarded) Done() <-chan struct{} { return g.done }

// Wait blocks until [Guarded.Done] is closed and returns how the command ended.
func (g *Guarded) Wait() Status {
	<-g.done
	return g.status
}

// Stop begins to end the group and does not block: it sends sig, and SIGKILL after the grace
// period to the processes that are left. A second Stop only sends its signal.
func (g *Guarded) Stop(sig syscall.Signal, grace time.Duration) {
	g.kill(sig)
	g.kill(syscall.SIGCONT)
	g.stop.Do(func() {
		go func() {
			after := time.NewTimer(grace)
			defer after.Stop()
			select {
			case <-after.C:
			case <-g.done:
				return
			}
			g.kill(syscall.SIGKILL)
			after.Reset(killTime)
			select {
			case <-after.C:
			case <-g.done:
			}
			close(g.killed)
		}()
	})
}

func (g *Guarded) kill(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		syscall.Kill(-g.guard, sig)
	}
	if group, err := syscall.Getpgid(g.command); g.command != 0 && err == nil && group != g.guard {
		to := g.command
		if group == g.command {
			to = -g.command // the group that it leads
		}
		syscall.Kill(to, sig)
	}
}

// supervise starts the command and stays with it to its end, on one thread, as that of [Process].
func (g *Guarded) supervise(path string, c Command, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(g.done)
	defer g.end()
	files, closeNull, err := sys.Descriptors(c.Stdin, c.Stdout, c.Stderr)
	if err != nil {
		started <- err
		return
	}
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, Pgid: g.guard}}
	setParentDeath(attr.Sys, syscall.SIGKILL)
	sys.ForkLock.RLock()
	pid, err := sys.StartProcess(path, c.Args, attr)
	sys.ForkLock.RUnlock()
	closeNull()
	if err == nil {
		g.mu.Lock()
		g.command = pid
		g.mu.Unlock()
	}
	started <- err
	if err != nil {
		return
	}
	go func() { // if the guard is killed, nobody would end the group after our end
		sys.Waitid(g.guard, sys.WaitEnd|sys.WaitPeek)
		g.kill(syscall.SIGKILL)
	}()
	sys.Waitid(pid, sys.WaitEnd|sys.WaitPeek)
	var status unix.WaitStatus
	g.mu.Lock()
	status, _, err = sys.Reap(pid)
	g.command = 0
	g.mu.Unlock()
	g.status = newStatus(status, err)
	g.awaitOthers()
}

// lookAgain is how often the members of a group are listed anew while one of them lives: it may have left
// the group.
const lookAgain = time.Second

// awaitOthers blocks until no process of the group is alive but the guard. If the members cannot
// be listed, or do not end by KILL, the group counts as ended.
func (g *Guarded) awaitOthers() {
	for empty := 0; ; {
		select {
		case <-g.killed:
			return
		default:
		}
		pids, err := liveMembers(g.guard)
		if err != nil {
			return
		}
		other := 0
		for _, pid := range pids {
			if pid != g.guard {
				other = pid
			}
		}
		if other == 0 {
			if empty++; empty == 2 { // one look may miss a process that has just been forked
				return
			}
			continue
		}
		empty = 0
		ctx, cancel := context.WithTimeout(context.Background(), lookAgain)
		err = awaitMember(ctx, other, g.guard)
		look := ctx.Err() != nil
		cancel()
		if err != nil && !look {
			return
		}
	}
}

// end kills what is left of the group, and its guard.
func (g *Guarded) end() {
	g.kill(syscall.SIGKILL)
	sys.Waitid(g.guard, sys.WaitEnd|sys.WaitPeek)
	g.mu.Lock()
	sys.Reap(g.guard)
	g.reaped = true
	g.mu.Unlock()
	g.waiting.Close()
}
