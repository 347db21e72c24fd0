package sys

import (
	"context"
	"time"
)

// AwaitExit blocks until the process pid has ended, or until ctx has, and
// returns its cause. It looks at intervals. It also returns nil if the process
// is not the one that was meant.
func AwaitExit(ctx context.Context, pid int, meant func() bool, every time.Duration) error {
	return PollExit(ctx, pid, meant, every)
}
