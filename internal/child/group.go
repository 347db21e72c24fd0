package child

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
)

// group is a child's process group, and the terminal that it may be lent. The
// group's id is its leader's pid, which the kernel does not reuse until the leader
// is reaped. So a caller may signal the group while it holds mu and reaped is not
// set, or while it has pinned the group.
type group struct {
	id  int
	tty *terminal

	mu       sync.Mutex
	sent     uint64    // a bit for each signal that we sent to the group
	pins     int       // stops that still need the id
	unpinned sync.Cond // pins became 0
	reaped   bool
}

func newGroup() *group {
	g := &group{tty: openTerminal()}
	g.unpinned.L = &g.mu
	return g
}

// signal sends a signal to the group. With SIGCONT it also lends the terminal.
func (g *group) signal(sig syscall.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reaped {
		return os.ErrProcessDone
	}
	if sig == syscall.SIGCONT {
		g.tty.lend(g.id)
	}
	g.sent |= 1 << sig
	return g.kill(sig)
}

// kill sends a signal to the group. The caller keeps the leader from being reaped.
func (g *group) kill(sig syscall.Signal) error {
	err := syscall.Kill(-g.id, sig)
	if err == syscall.ESRCH {
		err = syscall.Kill(g.id, sig) // the leader has moved to another group
	}
	return os.NewSyscallError("kill", err)
}

// pin sends signals to the group and keeps its leader from being reaped until unpin is called.
// ok is false if the leader ended before it was pinned; then no signal is sent.
func (g *group) pin(signals ...syscall.Signal) (unpin func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reaped || g.pins == 0 && g.leaderEnded() {
		return nil, false
	}
	g.pins++
	for _, sig := range signals {
		g.sent |= 1 << sig
		g.kill(sig)
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.pins--
		g.unpinned.Broadcast()
	}, true
}

// leaderEnded tells whether the leader has ended, which is not reaped. After a suspension of this
// process a signal may be seen before the end of the leader, although the end came first.
func (g *group) leaderEnded() bool {
	info, err := sys.Waitid(g.id, sys.WaitEnd|sys.WaitPeek|sys.WaitNow)
	return err == nil && info.Pid() != 0
}

// reap takes the terminal back and reaps the leader, which has ended, as soon as no stop pins
// the group.
func (g *group) reap() (Status, unix.Rusage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// First, since the rest of the group may end slowly: meanwhile ^C comes to us.
	hadTerminal := g.tty.reclaim(g.id)
	for g.pins > 0 {
		g.unpinned.Wait()
	}
	hadTerminal = g.tty.reclaim(g.id) || hadTerminal // a SIGCONT may have lent it again
	ended, usage, err := sys.Reap(g.id)
	status := newStatus(ended, err)
	status.Terminal = g.tty != nil
	g.reaped = true
	if hadTerminal && status.Signal != 0 {
		// As a shell does. A command that exits may have changed the modes on purpose.
		g.tty.restoreModes()
		status.Alone = g.sent&(1<<status.Signal) == 0
	}
	return status, usage
}
