package process

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/trap/internal/sys"
)

// exitPoll is how often WaitExit looks at a process of whose end the kernel does not tell:
// seldom enough to cost nothing, soon enough for a lease.
const exitPoll = time.Second

// WaitExit blocks until the process pid has ended, and returns nil, or until ctx has ended, and
// returns its cause. A process that does not exist has ended, and so has a zombie. The process
// need not be a child of ours. If pid is not positive, the error is EINVAL, at once.
//
// On Linux WaitExit waits for a pidfd (pidfd_open(2)) and costs no CPU. Elsewhere, and where
// the kernel gives no pidfd, it looks once a second, and cannot tell the process from a later
// one with the same id. The kernel gives none before 5.3, in a sandbox that forbids pidfds, and
// when no descriptor is free.
func WaitExit(ctx context.Context, pid int) error {
	if pid <= 0 { // such as the parent of a container's first process
		return fmt.Errorf("wait for process %d: %w", pid, syscall.EINVAL)
	}
	return sys.AwaitExit(ctx, pid, func() bool { return true }, exitPoll)
}

// Lives tells whether a process pid exists that has not ended. A zombie has ended. pid must be
// positive.
func Lives(pid int) bool {
	over, end := context.WithCancel(context.Background())
	end() // so that WaitExit only looks
	return WaitExit(over, pid) != nil
}

// WatchExit is [WaitExit] in the background. It returns as soon as the end of process pid can
// be neither missed nor taken for that of a later process with the same id. The result of the
// wait then comes on the channel, once. A caller that ends ctx need not receive it.
func WatchExit(ctx context.Context, pid int) <-chan error {
	ended := make(chan error, 1)
	if pid <= 0 {
		ended <- WaitExit(ctx, pid)
		return ended
	}
	watching := make(chan struct{})
	begun := sync.OnceFunc(func() { close(watching) })
	go func() {
		defer begun() // for a process that ended before AwaitExit asked
		ended <- sys.AwaitExit(ctx, pid, func() bool { begun(); return true }, exitPoll)
	}()
	<-watching
	return ended
}
