package holder

import (
	"context"
	"time"
)

const (
	// ReleaseTimeout bounds a release at a proxy that does not answer. It is a little less than
	// the 10 s that users are promised.
	ReleaseTimeout = 9500 * time.Millisecond
	// releaseAfterSignal bounds a release once the caller must end: CI systems send KILL as
	// early as 5 s after TERM.
	releaseAfterSignal = 3 * time.Second
)

// releaseContext returns a context for clean-up. It ends releaseAfterSignal after ctx, and
// after ReleaseTimeout at the latest. A release context within another one ends with the outer
// one at the latest, so that the parts of one clean-up share their time.
func releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return boundRelease(ctx, ReleaseTimeout)
}

// boundRelease is releaseContext with another bound. The cause of its end is always
// [context.DeadlineExceeded]: to callers this is a proxy that does not answer.
func boundRelease(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Value(releasing{}) != nil {
		return context.WithTimeout(ctx, most)
	}
	if ctx.Err() != nil {
		most = min(most, releaseAfterSignal) // for callers that share out the time until the deadline
	}
	return hurried(context.WithValue(context.WithoutCancel(ctx), releasing{}, ctx), ctx, most, releaseAfterSignal)
}

// shareOfTime returns a context that has the nth part of the time of a release context, and the
// nth part of releaseAfterSignal once the caller has ended.
func shareOfTime(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if n == 1 || !bounded {
		return ctx, func() {}
	}
	caller, is := ctx.Value(releasing{}).(context.Context)
	if !is {
		caller = ctx
	}
	return hurried(ctx, caller, time.Until(deadline)/time.Duration(n), releaseAfterSignal/time.Duration(n))
}

// hurried returns a context that ends after most, or afterCaller after the end of caller if that is
// earlier.
func hurried(ctx, caller context.Context, most, afterCaller time.Duration) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithTimeout(ctx, most)
	out, end := context.WithCancelCause(bounded)
	hurry := time.AfterFunc(most, func() { end(context.DeadlineExceeded) })
	stop := context.AfterFunc(caller, func() { hurry.Reset(afterCaller) })
	return out, func() {
		stop()
		hurry.Stop()
		end(nil)
		cancel()
	}
}

// releasing marks a release context. Its value is the context of the caller.
type releasing struct{}

// writeContext returns a context for notes of an operation's result: a proxy that did not
// answer may have used up the time of ctx.
func writeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), releaseAfterSignal)
}
