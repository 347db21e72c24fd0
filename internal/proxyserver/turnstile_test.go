package proxyserver

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// A caller with many dear calls delays another one by one of them.
func TestDearCallsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turnstile
		var order []string // appended to by who has the turn
		var calls sync.WaitGroup
		end := all.take("a")
		for _, caller := range []string{"a", "a", "a", "b", "b", "c"} {
			calls.Go(func() {
				end := all.take(caller)
				order = append(order, caller)
				end()
			})
			synctest.Wait()
		}
		end()
		calls.Wait()
		if want := []string{"a", "b", "c", "a", "b", "a"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
		if all.taken || len(all.waiting) > 0 || len(all.next) > 0 {
			t.Errorf("left: %+v", &all)
		}
	})
}
