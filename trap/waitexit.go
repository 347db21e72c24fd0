package trap

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// exitPoll is how often WaitExit looks where the kernel does not tell of a
// process's end: seldom enough to cost nothing, soon enough for a lease.
const exitPoll = time.Second

// WaitExit blocks until the process pid has ended, and returns nil, or until ctx
// has, and returns its cause. A process that does not exist has ended, and so
// has a zombie. It need not be a child of ours.
//
// On Linux it waits for a pidfd (pidfd_open(2)) and costs no CPU. Elsewhere, and
// where the kernel is older than 5.3 or a sandbox forbids pidfds, it looks once a
// second, and cannot tell a process from a later one with the same id.
func WaitExit(ctx context.Context, pid int) error {
	if pid <= 0 { // such as the parent of a container's first process
		return fmt.Errorf("wait for process %d: %w", pid, syscall.EINVAL)
	}
	return waitExit(ctx, pid, func() bool { return true }, exitPoll)
}

// pollExit waits for the end of a process by looking. It is also over if the
// process is not the one that was meant.
func pollExit(ctx context.Context, pid int, meant func() bool, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for meant() && !gone(pid) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
