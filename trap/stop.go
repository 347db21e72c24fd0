package trap

import (
	"context"
	"syscall"
	"time"
)

// killTime bounds the wait after SIGKILL, which takes effect within
// milliseconds. A process that is still there is beyond signals (in the kernel
// for uninterruptible I/O, or another user's), and waiting longer helps nobody.
const killTime = 2 * time.Second

// Stop ends the child's group: it sends sig, and SIGCONT so that a stopped
// process sees it, gives the group the grace period to end, and sends SIGKILL to
// what is left. It blocks until no process of the group is alive and returns how
// the leader ended.
//
// A second Stop that runs at the same time sends its signal as well, and ends
// the group when its own grace period is over. After the child's end Stop does
// nothing: what a child leaves behind that ended by itself is left alone.
//
// Stop blocks longer than the grace period only while the kernel cannot end the
// leader, or may not: one that runs as another user.
func (c *Child) Stop(sig syscall.Signal, grace time.Duration) Status {
	c.mu.Lock()
	if c.reaped {
		c.mu.Unlock()
		return c.status
	}
	c.stopping++
	c.kill(sig)
	c.kill(syscall.SIGCONT)
	c.mu.Unlock()

	// As long as stopping is not 0 the leader is not reaped, so that the
	// group's id stays the group's.
	awaitGroup(grace, c.pid)
	c.kill(syscall.SIGKILL) // also if none was seen: one may have been born since
	syscall.Kill(c.pid, syscall.SIGKILL)
	awaitGroup(killTime, c.pid)

	c.mu.Lock()
	c.stopping--
	c.unpinned.Broadcast()
	c.mu.Unlock()
	return c.Wait()
}

// Kill ends the child's group by SIGKILL, at once: it is Stop without grace.
func (c *Child) Kill() Status { return c.Stop(syscall.SIGKILL, 0) }

// memberPoll is how often awaitGroup looks at a process where the kernel does
// not tell of its end: often enough that a stop seems to take no time.
const memberPoll = 10 * time.Millisecond

// awaitGroup blocks until no process of the group is alive, zombies aside, but
// no longer than limit. If the members cannot be listed it blocks that long.
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
			member := func() bool {
				id, err := syscall.Getpgid(pid)
				return err == nil && id == group
			}
			if err := waitExit(ctx, pid, member, memberPoll); err != nil && ctx.Err() == nil {
				<-ctx.Done() // cannot tell; the second time around comes SIGKILL
			}
		}
	}
}
