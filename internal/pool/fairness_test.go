package pool

import (
	"fmt"
	"testing"
	"time"
)

// A request for 10 of 50 is not starved by a steady stream of requests for one, also while its
// client waits in slices: 25 s, an answer that it still waits, and a new slice within 2 s. No
// later request is granted before it.
func TestLargeRequestInSlicesIsNotStarved(t *testing.T) {
	const (
		hold    = 20 * time.Minute
		every   = 20 * s           // between requests for one: more than 50 names can serve
		arrives = 19 * time.Minute // when all names are held and some requests wait
		slice   = 25 * s           // ends at many different moments between two releases
		tick    = 500 * time.Millisecond
	)
	for _, c := range []struct {
		name    string
		pace    time.Duration
		linger  time.Duration
		gap     time.Duration // from an answer to the next slice
		starved bool
	}{
		{"comes back at once", 0, 2 * s, 0, false},
		{"comes back late", 0, 2 * s, 2*s - tick, false},
		{"with a pace", AutoPace(hold, 50), 2 * s, 2*s - tick, false},
		// It is not starved, because it stays active meanwhile.
		{"loses its connection", 0, 0, 2*s - tick, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := with(t, Config{Type: "t", Names: numbered("t", 50), Pace: c.pace, Overtake: strictly})
			large := Request{ID: "large", Type: "t", Ask: Ask{Count: 10}}
			var granted time.Duration
			slices, overtakers := 0, 0
			back, end := arrives, never
			for now := time.Duration(0); granted == 0 && now < 2*hour; now += tick {
				if now == end {
					set.Detach(now, large.ID, c.linger)
					back = now + c.gap
				}
				if now == back {
					acquire(t, set, now, large)
					slices++
					end = now + slice
				}
				if now%every == 0 {
					acquire(t, set, now, Request{ID: fmt.Sprint(now), Type: "t"})
				}
				set.Advance(now)
				for _, change := range set.Drain() {
					if change.Kind != Granted {
						continue
					}
					set.Release(now, ref(change.Leases[0]), hold)
					if change.ID == large.ID {
						granted = now
					} else if came := now - change.Took; came > arrives {
						overtakers++
					}
				}
			}
			if starved := granted == 0; starved != c.starved || (overtakers > 0) != c.starved {
				t.Errorf("starved: %v, overtaken by %d", starved, overtakers)
			}
			if slices < 5 {
				t.Errorf("%d slices: too few to tell", slices)
			}
		})
	}
}

// acquire acquires, and expects leases or a place in the queue.
func acquire(t testing.TB, set *Set, now time.Duration, q Request) {
	t.Helper()
	if _, err := set.Acquire(now, q); err != nil {
		t.Fatalf("acquire %q at %v: %v", q.ID, now, err)
	}
}

// A client that disappears silently holds up the waiters behind it for as long as it stays
// active, not for as long as its place is kept.
func TestGoneWaiterHoldsNobodyUp(t *testing.T) {
	for _, pace := range []time.Duration{0, 5 * s} {
		t.Run(fmt.Sprintf("pace=%v", pace), func(t *testing.T) {
			set := with(t, Config{Type: "t", Names: numbered("t", 3), Pace: pace, Overtake: strictly})
			firm(t, set, 0, "a", "t-0")
			must(t, set, 10*s, Request{ID: "large", Type: "t", Ask: Ask{Count: 3}})
			must(t, set, 10*s, req("b"))
			set.Detach(35*s, "large", 2*s) // its slice is over, and it does not come back
			set.Drain()
			set.Advance(37*s - 1)
			changed(t, set)
			set.Advance(37 * s)
			changed(t, set, "granted b [t-1]")
			set.Release(38*s, Ref{Name: "t-0"}, 0)
			set.Release(38*s, Ref{Name: "t-1"}, 0)
			must(t, set, 65*s-1, Request{ID: "large", Type: "t", Ask: Ask{Count: 3}}, "t-2", "t-0", "t-1")
		})
	}
}
