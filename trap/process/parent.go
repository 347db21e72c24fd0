package process

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/trap/internal/sys"
)

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
