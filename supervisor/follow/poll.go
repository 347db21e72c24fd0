package follow

import (
	"context"
	"time"
)

// pollEvery is how often a log is looked at if no event says when it changes.
const pollEvery = 500 * time.Millisecond

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
