package process

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/trap/internal/sys"
)

// WaitParent is [WaitExit] for the process that started this one. It notices at
// once if that had ended before anybody could ask: whoever adopts an orphan,
// init or a subreaper, is in another session than the orphan, while a parent is
// not, unless its child began the session (setsid(2)). Where the two share a
// session, as in a container whose first process is the shell itself, it waits
// for that one. The first process of a container has no parent, and waits until
// ctx ends.
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

// adopted tells whether the parent of this process is not who started it.
func adopted(parent int) bool {
	ours, err := unix.Getsid(0)
	if err != nil || ours == os.Getpid() {
		return false
	}
	theirs, err := unix.Getsid(parent)
	return err != nil || theirs != ours
}
