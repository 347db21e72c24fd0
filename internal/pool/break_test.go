package pool

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// mustBreak breaks the lease of name, with the reason "drill".
func mustBreak(t testing.TB, set *Set, now time.Duration, name string, immediately bool) Lease {
	t.Helper()
	l, err := set.Break(now, name, Act{By: "ops", Reason: "drill"}, immediately)
	if err != nil {
		t.Fatalf("break %s at %v: %v", name, now, err)
	}
	return l
}

// A broken lease is lost to its holder at once, and its name is free when the TTL that the
// lease had then is over.
func TestBreakLeavesTheTTL(t *testing.T) {
	set := one(t, 1)
	a := must(t, set, 0, Request{ID: "a", Type: "t", TTL: time.Minute}, "t-0")[0]
	set.Renew(10*s, ref(a), 0)
	must(t, set, 10*s, req("b"))
	set.Drain()
	if l := mustBreak(t, set, 20*s, "t-0", false); l.Expires != 70*s || l.Broken != "drill" {
		t.Errorf("broke %+v", l)
	}
	changed(t, set, "broken t-0: drill")
	for range 2 {
		if _, why := set.Renew(30*s, ref(a), hour); why != "broken: drill" || !why.Broken() {
			t.Errorf("renewal: %q", why)
		}
	}
	set.Advance(70*s - 1)
	changed(t, set)
	set.Advance(70 * s)
	changes := set.Drain()
	if got := strings.Join(words(changes), ", "); got != "broken: drill t-0, remembered a, granted b [t-0]" || changes[0].Act != (Act{}) {
		t.Errorf("%s, by %+v", got, changes[0].Act)
	}
	if _, why := set.Renew(71*s, ref(a), 0); why != Other {
		t.Errorf("renewal after it was granted again: %q, want %q", why, Other)
	}
}

// Repeating the request of an unconfirmed grant does not prolong a broken lease either.
func TestBreakOfProvisionalGrant(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	mustBreak(t, set, 10*s, "t-0", false)
	if got := must(t, set, 20*s, req("a"), "t-0"); got[0].Expires != 30*s {
		t.Errorf("asked again, it expires at %v, want 30s", got[0].Expires)
	}
	set.Drain()
	set.Advance(30 * s)
	changed(t, set, "broken: drill t-0", "remembered a")
}

// The holder can still release a broken lease, even if it does not know of the break.
func TestBreakThenRelease(t *testing.T) {
	for _, c := range []struct {
		name    string
		release func(*Set, Lease)
	}{
		{"by generation", func(set *Set, l Lease) { set.Release(20*s, ref(l), 0) }},
		{"by name", func(set *Set, l Lease) { set.Release(20*s, Ref{Name: l.Name}, 0) }},
		{"by request", func(set *Set, l Lease) { set.Cancel(20*s, "a") }},
		{"when it was pending", func(set *Set, l Lease) { set.Advance(30 * s) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := one(t, 1)
			a := must(t, set, 0, req("a"), "t-0")[0]
			set.Release(0, ref(a), 30*s)
			mustBreak(t, set, 10*s, "t-0", false)
			set.Drain()
			c.release(set, a)
			changed(t, set, "released t-0", "remembered a")
			if _, why := set.Renew(31*s, ref(a), 0); why != Released {
				t.Errorf("renewal afterwards: %q, want %q", why, Released)
			}
		})
	}
}

// Delaying the release of a broken lease prolongs the lease no more than renewing does.
func TestBreakBoundsDelay(t *testing.T) {
	for _, c := range []struct {
		name                 string
		pending, delay, want time.Duration // pending: the release before; delay: of the release at 10 s; want: the end
	}{
		{"later than the TTL", 0, hour, 30 * s},
		{"sooner than the TTL", 0, 5 * s, 15 * s},
		{"later than it was pending", hour, 2 * hour, hour},
		{"sooner than it was pending", hour, 5 * s, 15 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := one(t, 1)
			a := must(t, set, 0, req("a"), "t-0")[0]
			if c.pending > 0 {
				set.Release(0, ref(a), c.pending)
			}
			mustBreak(t, set, 1*s, "t-0", false)
			if why := set.Release(10*s, ref(a), c.delay); why != "" {
				t.Errorf("release: %q", why)
			}
			nextIs(t, set, c.want)
			set.Drain()
			set.Advance(c.want)
			changed(t, set, "released t-0", "remembered a")
		})
	}
}

// A release that was put off for long does not keep a broken lease beyond its TTL.
func TestBreakBeforeALateRelease(t *testing.T) {
	set := one(t, 1)
	a := must(t, set, 0, Request{ID: "a", Type: "t", TTL: 60 * s}, "t-0")[0]
	set.Release(0, ref(a), hour)
	for _, now := range []time.Duration{10 * s, 50 * s} {
		if l := mustBreak(t, set, now, "t-0", false); l.Ends() != 70*s {
			t.Errorf("broken at %v, it ends at %v", now, l.Ends())
		}
	}
	nextIs(t, set, 70*s)
	set.Drain()
	set.Advance(70 * s)
	changed(t, set, "broken: drill t-0", "remembered a")
}

func TestBreakImmediately(t *testing.T) {
	set := one(t, 2)
	a := must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 2}}, "t-0", "t-1")
	must(t, set, 0, req("b"))
	set.Drain()
	mustBreak(t, set, 7*s, "t-0", true)
	changes := set.Drain()
	if c := changes[0]; c.Kind != Done || c.Reason != "broken: drill" || c.Took != 7*s || c.Lease.Broken != "drill" || c.Act != (Act{By: "ops", Reason: "drill"}) {
		t.Errorf("change %+v", c)
	}
	if got := words(changes); len(got) != 3 || got[1] != "another lost of [t-1]" || got[2] != "granted b [t-0]" {
		t.Errorf("changes %q", got)
	}
	must(t, set, 8*s, Request{ID: "a", Type: "t", Ask: Ask{Count: 2}}, "t-1") // the rest of the grant
	mustBreak(t, set, 9*s, "t-1", true)
	changed(t, set, "broken: drill t-1", "remembered a")
	refuse(t, set, 9*s, Request{ID: "a", Type: "t", Ask: Ask{Count: 2}}, ErrEnded)
	if _, why := set.Renew(9*s, ref(a[1]), 0); why != "broken: drill" {
		t.Errorf("renewal: %q", why)
	}
}

func TestBreakTwice(t *testing.T) {
	set := one(t, 1)
	a := must(t, set, 0, req("a"), "t-0")[0]
	mustBreak(t, set, 0, "t-0", false)
	set.Drain()
	mustBreak(t, set, 1*s, "t-0", false)
	changed(t, set, "broken t-0: drill") // the same again, but each act is noted
	if _, err := set.Break(2*s, "t-0", Act{}, false); err != nil {
		t.Fatal(err)
	}
	changed(t, set, "broken t-0: no reason given")
	if _, why := set.Renew(3*s, ref(a), 0); !why.Broken() {
		t.Errorf("renewal: %q", why)
	}
	mustBreak(t, set, 4*s, "t-0", true)
	changed(t, set, "broken: drill t-0", "remembered a")
}

func TestBreakNothing(t *testing.T) {
	set := one(t, 1)
	if _, err := set.Break(0, "x", Act{Reason: "drill"}, true); !errors.Is(err, ErrUnknownName) {
		t.Errorf("a name that never was: %v", err)
	}
	if _, err := set.Break(0, "t-0", Act{Reason: "drill"}, true); !errors.Is(err, ErrNotHeld) {
		t.Errorf("a free name: %v", err)
	}
	must(t, set, 0, req("a"), "t-0")
	if _, err := set.Break(30*s, "t-0", Act{Reason: "drill"}, true); !errors.Is(err, ErrNotHeld) {
		t.Errorf("a lease that is over: %v", err)
	}
}

// A broken lease stays broken after a restart, which does not prolong it.
func TestBreakOutlivesRestart(t *testing.T) {
	set := one(t, 3)
	a := must(t, set, 0, req("a"), "t-0")[0]
	b := must(t, set, 0, Request{ID: "b", Type: "t", Anonymous: true, TTL: time.Minute}, "t-1")[0]
	c := must(t, set, 0, req("c"), "t-2")[0]
	set.Release(0, ref(c), hour)
	for _, l := range []Lease{a, b, c} {
		mustBreak(t, set, 10*s, l.Name, false)
	}
	back := restarted(t, set, Config{Type: "t", Names: numbered("t", 3)})
	for _, l := range []Lease{a, b, c} {
		if _, why := back.Renew(20*s, ref(l), 0); why != "broken: drill" {
			t.Errorf("renewal of %s: %q", l.Name, why)
		}
	}
	back.Advance(30 * s)
	changed(t, back, "broken: drill t-0", "remembered a")
	back.Advance(60 * s)
	changed(t, back, "broken: drill t-1")
	back.Advance(hour)
	changed(t, back, "released t-2", "remembered c")
}

// How long a broken lease was held says nothing about how long jobs take.
func TestBreakDoesNotTouchTheEstimate(t *testing.T) {
	set := one(t, 1)
	a := must(t, set, 0, req("a"), "t-0")[0]
	set.Renew(0, ref(a), 0)
	mustBreak(t, set, 1*s, "t-0", true)
	must(t, set, 1*s, req("b"), "t-0")
	must(t, set, 1*s, req("c"))
	if st, _ := set.Status(1*s, "c"); st.Estimate != 0 {
		t.Errorf("estimate %v, want none", st.Estimate)
	}
}
