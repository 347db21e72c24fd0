package sys

import (
	"context"
	"time"
)

// AwaitExit blocks until the process pid has ended, and returns nil, or until ctx has ended,
// and returns its cause. It polls at the interval every. If meant returns false, pid is another
// process by now, and AwaitExit returns nil.
func AwaitExit(ctx context.Context, pid int, meant func() bool, every time.Duration) error {
	return PollExit(ctx, pid, meant, every)
}
