package pool

import (
	"fmt"
	"testing"
	"time"
)

// A stale release never ends a successor's lease, and releasing a free name succeeds.
func TestRelease(t *testing.T) {
	set := one(t, 2)
	q := req("a")
	q.Owner = "me"
	old := must(t, set, 0, q, "t-0")[0]
	set.Cancel(0, "a")
	q.ID = "b"
	must(t, set, 0, q, "t-1")
	q.ID = "c"
	current := must(t, set, 0, q, "t-0")[0]
	set.Cancel(0, "b")
	set.Drain()
	for _, c := range []struct {
		name string
		ref  Ref
		want Reason
	}{
		{"stale generation", ref(old), Other},
		{"other owner", Ref{Name: "t-0", Owner: "you"}, Other},
		{"no such name", Ref{Name: "x"}, Unknown},
		{"free", Ref{Name: "t-1"}, ""},
		{"free, any generation", Ref{Name: "t-1", Generation: 7}, ""},
	} {
		for _, delay := range []time.Duration{0, time.Minute} {
			if why := set.Release(0, c.ref, delay); why != c.want {
				t.Errorf("%s, delay %v: %q, want %q", c.name, delay, why, c.want)
			}
			changed(t, set)
		}
	}
	for _, r := range []Ref{ref(current), {Name: "t-0", Owner: "me"}} {
		if why := set.Release(0, r, 0); why != "" { // the second finds the name free
			t.Errorf("%+v: %q", r, why)
		}
	}
	changed(t, set, "released t-0", "remembered c")
}

// A pending release happens exactly at its time, whatever is renewed, although the TTL is over
// and exceeds the maximum.
func TestDelayedRelease(t *testing.T) {
	set := with(t, Config{Type: "t", Names: []string{"n"}, MaxTTL: time.Minute})
	a := must(t, set, 0, req("a"), "n")[0]
	set.Release(0, ref(a), time.Hour)
	changed(t, set, "granted a [n]", "delayed n")
	l, why := set.Renew(10*s, ref(a), 0)
	if why != "" || l.ReleaseAt != time.Hour || l.Ends() != time.Hour {
		t.Errorf("renewed %+v, %q", l, why)
	}
	set.Advance(time.Hour - 1)
	changed(t, set)
	set.Advance(time.Hour)
	changed(t, set, "released n", "remembered a")
}

func TestDelayMovesEitherWay(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration // of the second release, at 10 s
		want  time.Duration
	}{
		{"sooner", 5 * s, 15 * s},
		{"later", time.Hour, time.Hour + 10*s},
		{"at once", 0, 10 * s},
		{"the end of time", 1<<63 - 1, 1<<63 - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := one(t, 1)
			a := must(t, set, 0, req("a"), "t-0")[0]
			set.Release(0, ref(a), time.Minute)
			set.Release(10*s, ref(a), c.delay)
			set.Advance(c.want - 1)
			if held, _ := set.Busy(); held != 1 && c.delay != 0 {
				t.Error("released too soon")
			}
			set.Advance(c.want)
			if held, _ := set.Busy(); held != 0 {
				t.Error("not released in time")
			}
		})
	}
}

func TestHoldTimeIsReported(t *testing.T) {
	set := one(t, 1)
	must(t, set, 5*s, req("a"), "t-0")
	set.Drain()
	set.Cancel(12*s, "a")
	if c := set.Drain()[0]; c.Kind != Done || c.Took != 7*s {
		t.Errorf("change %+v, want an end after 7s", c)
	}
}

// Ending all leases of a request takes a few times as long as granting them, however many there
// are, whether they end in the order of their grants or in reverse. (It was 200 times as long
// for the most that a pool may have: 17 s, in which the server did nothing else.)
func TestEndOfManyLeases(t *testing.T) {
	set := one(t, MaxCapacity)
	for _, end := range []struct {
		how string
		of  func(now time.Duration, leases []Lease)
	}{
		{"cancelled", func(now time.Duration, leases []Lease) { set.Cancel(now, leases[0].RequestID) }},
		{"expired", func(now time.Duration, leases []Lease) { set.Advance(leases[0].Expires) }},
		{"released, the last one first", func(now time.Duration, leases []Lease) {
			for i := range leases {
				set.Release(now, ref(leases[len(leases)-1-i]), 0)
			}
		}},
	} {
		// One of three tries must succeed: a busy machine stops this process now and then.
		const tries = 3
		for try := 1; ; try++ {
			now := set.now
			q := req(fmt.Sprint(end.how, try))
			q.Count = MaxCapacity
			begin := time.Now()
			leases, err := set.Acquire(now, q)
			granted := time.Since(begin)
			if err != nil {
				t.Fatal(err)
			}
			set.Drain()
			begin = time.Now()
			end.of(now, leases)
			took := time.Since(begin)
			if held, _ := set.Busy(); held > 0 {
				t.Errorf("%s: %d are still held", end.how, held)
			}
			set.Drain()
			if took <= 20*granted {
				break
			}
			if try == tries {
				t.Errorf("%s: it took %v, the grant %v", end.how, took, granted)
				break
			}
		}
	}
}
