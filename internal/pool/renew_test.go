package pool

import (
	"testing"
	"time"
)

func TestFirstRenewalMakesFirm(t *testing.T) {
	set := one(t, 1)
	q := req("a")
	q.TTL = time.Minute
	a := must(t, set, 0, q, "t-0")
	if !a[0].Provisional || a[0].Expires != ProvisionalTTL || a[0].TTL != time.Minute {
		t.Errorf("granted %+v", a[0])
	}
	set.Drain()
	l, why := set.Renew(10*s, ref(a[0]), 0)
	if why != "" || l.Provisional || l.Expires != 70*s {
		t.Errorf("renewed %+v, %q", l, why)
	}
	changed(t, set, "renewed t-0")
	set.Renew(20*s, ref(a[0]), 0)
	changed(t, set) // nothing that must outlive a restart
	set.Renew(30*s, ref(a[0]), 2*time.Minute)
	changed(t, set, "renewed t-0")
	set.Advance(150*s - 1)
	changed(t, set)
	set.Advance(150 * s)
	changed(t, set, "expired t-0", "remembered a")
}

func TestTTLBounds(t *testing.T) {
	for _, c := range []struct {
		name                   string
		defaultTTL, maxTTL     time.Duration
		asked, granted, renews time.Duration // renews: what a renewal for 10 h gets
	}{
		{"all defaults", 0, 0, 0, 4 * time.Hour, 10 * time.Hour},
		{"asked for", 0, 0, time.Minute, time.Minute, 10 * time.Hour},
		{"default", time.Hour, 0, 0, time.Hour, 10 * time.Hour},
		{"maximum", 0, 5 * time.Hour, 9 * time.Hour, 5 * time.Hour, 5 * time.Hour},
		{"maximum below the default", 0, time.Hour, 0, time.Hour, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := with(t, Config{Type: "t", Names: []string{"n"}, DefaultTTL: c.defaultTTL, MaxTTL: c.maxTTL})
			q := req("a")
			q.TTL = c.asked
			a := must(t, set, 0, q, "n")
			if a[0].TTL != c.granted {
				t.Errorf("granted for %v, want %v", a[0].TTL, c.granted)
			}
			if l, _ := set.Renew(0, ref(a[0]), 10*time.Hour); l.TTL != c.renews {
				t.Errorf("renewed for %v, want %v", l.TTL, c.renews)
			}
		})
	}
}

func TestRenewLost(t *testing.T) {
	set := one(t, 3)
	a := must(t, set, 0, req("a"), "t-0")[0]
	b := must(t, set, 0, req("b"), "t-1")[0]
	c := must(t, set, 0, req("c"), "t-2")[0]
	set.Renew(0, ref(c), 0)
	set.Cancel(1*s, "a")
	set.Advance(31 * s) // b expires
	for _, tt := range []struct {
		name string
		ref  Ref
		want Reason
	}{
		{"released", ref(a), Released},
		{"expired", ref(b), Expired},
		{"current", ref(c), ""},
		{"other generation", Ref{Name: "t-2", Generation: c.Generation + 1}, Other},
		{"other owner", Ref{Name: "t-2", Owner: "you"}, Other},
		{"before the last", Ref{Name: "t-1", Generation: b.Generation - 1}, Other},
		{"not remembered", Ref{Name: "t-0", Generation: 99}, Unknown},
		{"no such name", Ref{Name: "x", Generation: 1}, Unknown},
	} {
		if _, why := set.Renew(31*s, tt.ref, 0); why != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, why, tt.want)
		}
	}
	must(t, set, 32*s, req("d"), "t-0")
	if _, why := set.Renew(32*s, ref(a), 0); why != Other {
		t.Errorf("a name that was granted again: %q, want %q", why, Other)
	}
}
