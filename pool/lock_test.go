package pool

import (
	"testing"
	"time"
)

// locking is a pool of n names with a lock delay of 15 s.
func locking(t *testing.T, n int) *Set {
	t.Helper()
	return with(t, Config{Type: "t", Names: numbered("t", n), LockDelay: 15 * s})
}

// What expired, or was broken and not released, is not granted again for the lock
// delay, over a restart too. What was released is.
func TestLockDelay(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(set *Set) // ends the lease at 29 or 30 s
		want string
		over time.Duration // when it may be granted again; zero: at once
	}{
		{"expired", func(set *Set) { set.Advance(30 * s) }, "expired t-0", 45 * s},
		{"broken now", func(set *Set) { set.Break(29*s, "t-0", "why", true); set.Advance(30 * s) }, "broken: why t-0", 44 * s},
		{"broken, not released", func(set *Set) { set.Break(1*s, "t-0", "why", false); set.Drain(); set.Advance(30 * s) }, "broken: why t-0", 45 * s},
		{"broken, released", func(set *Set) {
			set.Break(1*s, "t-0", "why", false)
			set.Drain()
			set.Release(29*s, Ref{Name: "t-0"}, 0)
		}, "released t-0", 0},
		{"released", func(set *Set) { set.Release(29*s, Ref{Name: "t-0"}, 0) }, "released t-0", 0},
		{"released late", func(set *Set) { set.Release(1*s, Ref{Name: "t-0"}, 29*s); set.Drain(); set.Advance(30 * s) }, "released t-0", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := locking(t, 1)
			must(t, set, 0, Request{ID: "a", Type: "t", TTL: 30 * s, Anonymous: true}, "t-0")
			must(t, set, 0, req("b"))
			set.Drain()
			c.end(set)
			if c.over == 0 {
				changed(t, set, c.want, "granted b [t-0]")
				return
			}
			changed(t, set, c.want, "locked t-0")
			nextIs(t, set, c.over)
			if p := set.Totals(30 * s)[0]; p.InUse != 1 || p.LockDelayed != 1 {
				t.Errorf("pool %+v", p)
			}
			set = restart(t, set, 31*s)
			must(t, set, 31*s, req("b"))
			changed(t, set, "missed b", "returned b")
			set.Advance(c.over - 1)
			changed(t, set)
			set.Advance(c.over)
			changed(t, set, "unlocked t-0", "granted b [t-0]")
		})
	}
}

// A name that is configured no more when its lock delay is over is not granted; one
// that moved meanwhile is granted where it is.
func TestLockDelayOverAReconfiguration(t *testing.T) {
	set := locking(t, 3)
	for _, id := range []string{"a", "b", "c"} {
		must(t, set, 0, Request{ID: id, Type: "t", TTL: 30 * s, Anonymous: true}, "t-"+string(id[0]-'a'+'0'))
	}
	set.Drain()
	set.Advance(30 * s)
	changed(t, set, "expired t-0", "locked t-0", "expired t-1", "locked t-1", "expired t-2", "locked t-2")
	mustReconfigure(t, set, 31*s, Config{Type: "t", Names: []string{"t-0"}}, Config{Type: "u", Names: []string{"t-1"}})
	must(t, set, 31*s, req("d"))
	must(t, set, 31*s, Request{ID: "e", Type: "u"})
	if p := set.Totals(31 * s)[0]; p.InUse != 3 || p.Capacity != 1 {
		t.Errorf("pool %+v", p)
	}
	set.Advance(45 * s)
	changed(t, set, "unlocked t-0", "unlocked t-1", "unlocked t-2", "granted d [t-0]", "granted e [t-1]")
}
