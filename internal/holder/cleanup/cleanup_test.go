package cleanup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The parts of one clean-up share its time: once the caller has ended, they have 3 s together.
func TestContext(t *testing.T) {
	// ends returns after which time a context ends.
	ends := func(t *testing.T, ctx context.Context) time.Duration {
		begun := time.Now()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		return time.Since(begun)
	}
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, caller context.Context, end func()) time.Duration
		want time.Duration
	}{
		{"by itself", func(t *testing.T, caller context.Context, _ func()) time.Duration {
			ctx, cancel := Context(caller)
			defer cancel()
			return ends(t, ctx)
		}, Timeout},
		{"the caller has ended", func(t *testing.T, caller context.Context, end func()) time.Duration {
			end()
			ctx, cancel := Context(caller)
			defer cancel()
			return ends(t, ctx)
		}, afterSignal},
		{"the deadline, if the caller has ended", func(_ *testing.T, caller context.Context, end func()) time.Duration {
			end()
			ctx, cancel := Context(caller)
			defer cancel()
			deadline, _ := ctx.Deadline() // the servers of a list share the time until then
			return time.Until(deadline)
		}, afterSignal},
		{"the caller ends meanwhile", func(t *testing.T, caller context.Context, end func()) time.Duration {
			ctx, cancel := Context(caller)
			defer cancel()
			time.AfterFunc(2*time.Second, end)
			return ends(t, ctx)
		}, 2*time.Second + afterSignal},
		{"the caller ends late", func(t *testing.T, caller context.Context, end func()) time.Duration {
			ctx, cancel := Context(caller)
			defer cancel()
			time.AfterFunc(9*time.Second, end)
			return ends(t, ctx)
		}, Timeout},
		{"inside of another", func(t *testing.T, caller context.Context, end func()) time.Duration {
			end()
			outer, cancel := Context(caller)
			defer cancel()
			time.Sleep(2 * time.Second)
			inner, cancelInner := Context(outer)
			defer cancelInner()
			return 2*time.Second + ends(t, inner)
		}, afterSignal},
		{"short, inside of another", func(t *testing.T, caller context.Context, _ func()) time.Duration {
			outer, cancel := Context(caller)
			defer cancel()
			inner, cancelInner := Within(outer, 3*time.Second)
			defer cancelInner()
			return ends(t, inner)
		}, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, end := context.WithCancel(t.Context())
				defer end()
				if got := tt.run(t, caller, end); got != tt.want {
					t.Errorf("it ended after %s, want %s", got, tt.want)
				}
			})
		})
	}
}
