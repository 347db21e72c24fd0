package child

import (
	"context"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/internal/sys"
)

// killTime bounds the wait after SIGKILL, which takes effect within milliseconds. A process
// that is still alive then is in uninterruptible I/O, or another user's, and may stay so for
// good. Where the members of a group cannot be listed, every stop waits that long: a test
// shortens it.
var killTime = 2 * time.Second

// stop begins to end the group, unless its leader has ended by itself. A goroutine waits
// for the end of the group and sends SIGKILL to what is left after the grace period;
// it ends before reap returns.
func (g *group) stop(sig syscall.Signal, grace time.Duration) (begun bool) {
	// SIGCONT, so that a stopped process sees the signal.
	unpin, ok := g.pin(sig, syscall.SIGCONT)
	if !ok {
		return false
	}
	go func() {
		defer unpin()
		awaitGroup(grace, g.id)
		g.kill(syscall.SIGKILL) // even if the group looked empty: a member may have forked since
		syscall.Kill(g.id, syscall.SIGKILL)
		awaitGroup(killTime, g.id)
	}()
	return true
}

// memberPoll is how often awaitGroup looks at a process where there is no pidfd:
// often enough that a stop seems to take no time.
const memberPoll = 10 * time.Millisecond

// awaitMember blocks until process pid has ended, if it is of the group, or until ctx ends. The error is that
// of ctx, or that the end of the process cannot be watched.
func awaitMember(ctx context.Context, pid, group int) error {
	member := func() bool {
		id, err := syscall.Getpgid(pid)
		return err == nil && id == group
	}
	return sys.AwaitExit(ctx, pid, member, memberPoll)
}

// awaitGroup blocks until no process of the group is alive, zombies aside, but no longer than
// limit. If the members cannot be listed, it blocks for all of limit.
func awaitGroup(limit time.Duration, group int) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for ctx.Err() == nil {
		pids, err := liveMembers(group)
		if err != nil {
			<-ctx.Done()
			return
		}
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			if err := awaitMember(ctx, pid, group); err != nil && ctx.Err() == nil {
				<-ctx.Done() // its end cannot be watched: wait the whole limit
			}
		}
	}
}
