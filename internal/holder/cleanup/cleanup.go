// Package cleanup bounds how long giving back may take. Who gives back is often about to be killed,
// or has been told to end: so a clean-up goes on after the end of the caller's context, but not for
// long, and its parts share the time.
package cleanup

import (
	"context"
	"time"
)

const (
	// SettleTime bounds how long an acquire gives back what dead processes left before its own request:
	// some round trips to a proxy that answers.
	SettleTime = 500 * time.Millisecond
	// Timeout bounds a release at a proxy that does not answer. It is a little less than
	// the 10 s that users are promised.
	Timeout = 9500 * time.Millisecond
	// afterSignal bounds a release once the caller must end: CI systems send KILL as
	// early as 5 s after TERM.
	afterSignal = 3 * time.Second
)

// Context returns a context for clean-up. It ends afterSignal after ctx, and
// after Timeout at the latest. A context within another one of this package ends with the outer
// one at the latest, so that the parts of one clean-up share their time.
func Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return Within(ctx, Timeout)
}

// Within is Context with another bound. The cause of its end is always
// [context.DeadlineExceeded]: to callers this is a proxy that does not answer.
func Within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Value(cleaning{}) != nil {
		return context.WithTimeout(ctx, most)
	}
	if ctx.Err() != nil {
		most = min(most, afterSignal) // for callers that share out the time until the deadline
	}
	bounded, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), cleaning{}, true), most)
	out, end := context.WithCancelCause(bounded)
	hurry := time.AfterFunc(most, func() { end(context.DeadlineExceeded) })
	stop := context.AfterFunc(ctx, func() { hurry.Reset(afterSignal) })
	return out, func() {
		stop()
		hurry.Stop()
		end(nil)
		cancel()
	}
}

// Finish returns a context for a call whose result nobody would learn of if it were cut off: it ends with
// ctx, but not within afterSignal from now.
func Finish(ctx context.Context) (context.Context, context.CancelFunc) {
	least := time.Now().Add(afterSignal)
	out, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(time.Until(least), func() { end(context.Cause(ctx)) })
	})
	return out, func() {
		stop()
		end(nil)
	}
}

// cleaning marks a context of this package.
type cleaning struct{}

// ForNotes returns a context for notes of an operation's result: a proxy that did not
// answer may have used up the time of ctx.
func ForNotes(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), afterSignal)
}
