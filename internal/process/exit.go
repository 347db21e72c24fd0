package process

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
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

// WaitParent is [WaitExit] for the process that started this one. It returns at once if that
// process ended before the call: then our parent is the process that adopted us, init or a
// subreaper, which is in another session. A process that began its own session (setsid(2))
// cannot tell, and waits for its present parent. So does a process whose adopter shares its
// session, as in a container whose first process is the shell. The first process of a container
// has no parent, and waits until ctx ends.
func WaitParent(ctx context.Context) error {
	pid := os.Getppid()
	if pid == 0 {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if adopted(pid) {
		return nil
	}
	return sys.AwaitExit(ctx, pid, func() bool { return os.Getppid() == pid }, exitPoll)
}

// adopted tells whether the parent of this process adopted it, as far as their sessions show.
func adopted(parent int) bool {
	ours, err := unix.Getsid(0)
	if err != nil || ours == os.Getpid() {
		return false
	}
	theirs, err := unix.Getsid(parent)
	return err != nil || theirs != ours
}

// ReapOrphans removes the zombies of processes that this one inherited. The first process of a
// container becomes the parent of every process there whose own parent has ended, and must wait
// for each, since a zombie keeps its process id until then. Processes that package child or
// StartDetached started are left to them. A process that other code starts, such as os/exec,
// would be taken for an orphan.
//
// ReapOrphans returns at once. Its goroutine works until stop is called, which waits for it.
// Only the first process of a PID namespace and a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER)
// inherit orphans: in other processes, and outside Linux, ReapOrphans does nothing.
//
// While the group of a child is being stopped and its leader has ended, orphans stay zombies:
// the kernel shows the oldest zombie first, and that is the leader.
func ReapOrphans() (stop func()) { return reapOrphans() }
