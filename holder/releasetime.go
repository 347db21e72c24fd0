package holder

import (
	"context"
	"time"
)

const (
	// ReleaseTimeout bounds a release against a proxy that does not answer. It
	// is a little less than the ten seconds that are promised.
	ReleaseTimeout = 9500 * time.Millisecond
	// releaseAfterSignal bounds it once the caller is to end: CI systems send
	// KILL as early as 5 s after TERM.
	releaseAfterSignal = 3 * time.Second
)

// releaseContext returns a context for clean-up: it does not end with ctx, but
// within a short time of it, and after ReleaseTimeout at the latest. Inside of
// another release context it is bounded by that one, so that the parts of one
// clean-up share its time.
func releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return boundRelease(ctx, ReleaseTimeout)
}

// boundRelease is releaseContext with another bound. Its cause is
// [context.DeadlineExceeded] in either case: a proxy that has not answered by the
// end does not answer.
func boundRelease(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Value(releasing{}) != nil {
		return context.WithTimeout(ctx, most)
	}
	bounded, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), releasing{}, true), most)
	out, end := context.WithCancelCause(bounded)
	hurry := time.AfterFunc(most, func() { end(context.DeadlineExceeded) })
	stop := context.AfterFunc(ctx, func() { hurry.Reset(releaseAfterSignal) })
	return out, func() {
		stop()
		hurry.Stop()
		end(nil)
		cancel()
	}
}

// shareOfTime returns a context that has the nth part of the time of a release context.
func shareOfTime(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if n == 1 || !bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

// releasing marks a release context.
type releasing struct{}

// writeContext is for writing down what was done: the time of ctx may have gone by
// over a proxy that does not answer.
func writeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), releaseAfterSignal)
}
