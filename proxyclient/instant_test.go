package proxyclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/suspend"
)

func TestInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		start := Now()
		time.Sleep(time.Hour)
		if d := Now().Sub(start); d != time.Hour {
			t.Errorf("an hour took %s", d)
		}
		m.suspend(2*time.Hour, false)
		if d := Now().Sub(start); d != 3*time.Hour {
			t.Errorf("an hour and two suspended took %s", d)
		}
		if d := Until(start.Add(4 * time.Hour)); d != time.Hour {
			t.Errorf("%s until an hour from now", d)
		}
		start = Now()
		m.suspend(suspend.Shortest-1, false)
		if d := Now().Sub(start); d != 0 {
			t.Errorf("the distance of two readings counted: %s", d)
		}
		if start.IsZero() || !(Instant{}).IsZero() {
			t.Error("IsZero")
		}
	})
}

// With the machine's own clocks, time in a bubble is the bubble's.
func TestInstantInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := Now()
		for range 1000 {
			time.Sleep(time.Hour)
		}
		if d := Now().Sub(start); d != 1000*time.Hour {
			t.Errorf("1000h took %s", d)
		}
	})
}

// Sleep ends with the context, and returns the cause.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		want(t, Sleep(t.Context(), time.Hour))
		if d := time.Since(start); d != time.Hour {
			t.Errorf("slept %s", d)
		}
		cause := errors.New("told to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		want(t, Sleep(ctx, time.Hour), cause)
		if d := time.Since(start); d != time.Hour+time.Minute {
			t.Errorf("slept %s", d)
		}
	})
}

func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began, ended time.Duration
		start := time.Now()
		after := func(ctx context.Context) (stop func()) {
			began, ended = 0, 0
			return After(ctx, time.Second, func(ctx context.Context) {
				began = time.Since(start)
				<-ctx.Done()
				time.Sleep(time.Second)
				ended = time.Since(start)
			})
		}
		stop := after(t.Context())
		stop()
		stop()
		time.Sleep(time.Minute)
		if began != 0 {
			t.Error("it was begun after it was stopped")
		}

		start = time.Now()
		stop = after(t.Context())
		time.Sleep(3 * time.Second)
		stop() // also ends its context
		if began != time.Second || ended != 4*time.Second {
			t.Errorf("begun after %s, waited for until %s", began, ended)
		}
		stop()

		ctx, cancel := context.WithCancel(t.Context())
		stop = after(ctx)
		cancel()
		time.Sleep(time.Minute)
		stop()
		if began != 0 {
			t.Error("it was begun after its context had ended")
		}
	})
}

// An instant stays the same when it goes through SinceBoot and AfterBoot, as in a record
// of another process.
func TestSinceBoot(t *testing.T) {
	at := Now().Add(time.Hour)
	if off := AfterBoot(at.SinceBoot()).Sub(at); off.Abs() > 10*time.Second {
		t.Errorf("it is off by %v", off)
	}
	if since := Now().SinceBoot(); since <= 0 {
		t.Errorf("the machine booted %v ago", since)
	}
}
