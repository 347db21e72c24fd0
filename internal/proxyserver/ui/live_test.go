package ui

import (
	"testing"
	"testing/synctest"
	"time"
)

// A page that several browsers show is made once, and not at all when nobody looks.
func TestLiveIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(400)
		made := 0
		make := func() page {
			made++
			return message(200, "t", "m", "", "")
		}
		var unwatches []func()
		for range 10 {
			parts, unwatch, ok := l.watch(livePage{of: "/"}, "")
			if !ok {
				t.Fatal("ten browsers are too many")
			}
			unwatches = append(unwatches, unwatch)
			if parts, _, err := parts.latest(1, make); err != nil || len(parts) != 1 || parts[0].HTML == "" {
				t.Errorf("%v, %v", parts, err)
			}
		}
		if made != 1 {
			t.Errorf("made %d times", made)
		}
		parts, unwatch, _ := l.watch(livePage{of: "/", operator: true}, "adm")
		unwatches = append(unwatches, unwatch)
		if parts.latest(1, make); made != 2 {
			t.Error("an operator is shown the page of others")
		}
		for _, step := range []struct {
			after   time.Duration
			changed uint64
			made    int
		}{{liveEvery, 1, 2}, {0, 2, 3}, {liveEvery / 4, 3, 3}, {liveEvery / 4, 3, 4}, {liveAnyway, 3, 5}} {
			time.Sleep(step.after)
			if parts.latest(step.changed, make); made != step.made {
				t.Errorf("%v later, change %d: made %d times, want %d", step.after, step.changed, made, step.made)
			}
		}
		for _, unwatch := range unwatches {
			unwatch()
		}
		if len(l.watched) != 0 || l.count != 0 {
			t.Errorf("%d pages are kept for %d browsers, and nobody looks", len(l.watched), l.count)
		}
	})
}

// A user leaves as many live pages for others as it has.
func TestLiveOfOneUser(t *testing.T) {
	l := newLive(4 * 8)
	most := func(user string) (n int) {
		for {
			if _, _, ok := l.watch(livePage{of: "/"}, user); !ok {
				return n
			}
			n++
		}
	}
	if a, b, c, d := most("a"), most("b"), most("c"), most("d"); a != 4 || b != 2 || c != 1 || d != 1 {
		t.Errorf("%d, %d, %d and %d", a, b, c, d)
	}
}
