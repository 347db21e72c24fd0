package trap

import "context"

// WatchExit is [WaitExit] in two parts: it returns as soon as the end of process
// pid cannot be missed any more, nor be taken for that of a later process with
// the same id. What WaitExit would return then comes on the channel, once. A
// caller that ends ctx need not receive it.
func WatchExit(ctx context.Context, pid int) <-chan error {
	ended := make(chan error, 1)
	if pid <= 0 {
		ended <- WaitExit(ctx, pid)
		return ended
	}
	watching := make(chan struct{})
	go func() {
		first := true
		err := waitExit(ctx, pid, func() bool {
			if first {
				first = false
				close(watching)
			}
			return true
		}, exitPoll)
		if first {
			close(watching) // it is over already
		}
		ended <- err
	}()
	<-watching
	return ended
}
