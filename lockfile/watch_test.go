package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Each change is seen within a second, and nothing is seen twice.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handleIn(t)
		var mu sync.Mutex
		var seen []string
		done := make(chan error)
		go func() {
			done <- h.Watch(t.Context(), func(r Record) bool {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, string(r.State)+" "+r.RequestID)
				return r.RequestID != "r3"
			})
		}()
		within := func(want string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(seen) == 0 || seen[len(seen)-1] != want {
				t.Fatalf("a second later it has seen %q, want %q last", seen, want)
			}
		}
		within(" ")
		ok(t, h.Update(t.Context(), set(Record{State: HandleQueued, RequestID: "r1"})))
		within("queued r1")
		ok(t, h.Update(t.Context(), set(held("r1", "a"))))
		within("held r1")
		time.Sleep(time.Minute)
		ok(t, os.Remove(h.path)) // by a script
		within(" ")
		ok(t, h.Update(t.Context(), set(held("r2", "a"))))
		within("held r2")
		for i := range 10 { // at any time between two looks
			time.Sleep(50 * time.Millisecond)
			ok(t, h.Update(t.Context(), set(held(fmt.Sprintf("again%d", i), "a"))))
			within(fmt.Sprintf("held again%d", i))
		}
		ok(t, h.Update(t.Context(), set(Record{State: HandleQueued, RequestID: "r3"})))
		ok(t, <-done)
		if len(seen) != 16 {
			t.Errorf("it has seen %q", seen)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handleIn(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		calls := 0
		err := h.Watch(ctx, func(Record) bool { calls++; return true })
		if !errors.Is(err, context.DeadlineExceeded) || calls != 1 {
			t.Errorf("error %v after %d calls", err, calls)
		}
		write(t, h.jsonPath(), "{")
		wantError(t, h.Watch(t.Context(), func(Record) bool { return true }), "broken")
	})
}
