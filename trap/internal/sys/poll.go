package sys

import (
	"context"
	"time"
)

// PollExit is [AwaitExit] by polling at the interval every, where the kernel does not tell of
// the process's end.
func PollExit(ctx context.Context, pid int, meant func() bool, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for meant() && !Gone(pid) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
