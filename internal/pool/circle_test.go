package pool

import (
	"testing"
	"time"
)

// asks returns a request of an owner for a pool.
func asks(owner, id, typ string) Request { return Request{ID: id, Type: typ, Owner: owner} }

// Two owners that wait for each other are told so; in each case one thing lets one of them go.
func TestCircle(t *testing.T) {
	key := func(q Request) Request { q.Key = "k"; return q }
	for name, test := range map[string]struct {
		arrange func(set *Set, a, b Lease) // while a has x and b has y
		waits   func() (a, b Request)
		want    bool
	}{
		"two pools": {want: true},
		"a key": {
			arrange: func(set *Set, _, _ Lease) { set.Acquire(0, key(asks("A", "key", "many"))) },
			waits:   func() (a, b Request) { return asks("A", "wa", "y"), key(asks("B", "wb", "many")) }, want: true,
		},
		"a name": {waits: func() (a, b Request) {
			b = asks("B", "wb", "x")
			b.Name = "x-0"
			return asks("A", "wa", "y"), b
		}, want: true},
		"several pools": {waits: func() (a, b Request) {
			a = asks("A", "wa", "many")
			a.Also = "y"
			return a, asks("B", "wb", "x")
		}, want: true},
		"another who waits ahead": {arrange: func(set *Set, _, _ Lease) { set.Acquire(0, asks("C", "wc", "y")) }, want: true},
		"the same owner":          {waits: func() (a, b Request) { return asks("A", "wa", "y"), asks("A", "wb", "x") }},
		"only one waits":          {waits: func() (a, b Request) { return asks("A", "wa", "y"), asks("B", "wb", "many") }},
		"a late release":          {arrange: func(set *Set, a, _ Lease) { set.Release(0, ref(a), hour) }},
		"broken": {arrange: func(set *Set, _, b Lease) {
			set.Break(0, b.Name, Act{Reason: "stuck"}, false)
		}},
		"paused": {arrange: func(set *Set, _, _ Lease) { set.Pause(0, "x", Act{Reason: "later"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			set := with(t, Config{Type: "x", Names: numbered("x", 1)}, Config{Type: "y", Names: numbered("y", 1)}, Config{Type: "many", Names: numbered("many", 9)})
			a, b := must(t, set, 0, asks("A", "a", "x"), "x-0")[0], must(t, set, 0, asks("B", "b", "y"), "y-0")[0]
			for _, l := range []Lease{a, b} {
				set.Renew(0, ref(l), 2*hour)
			}
			if test.arrange != nil {
				test.arrange(set, a, b)
			}
			wa, wb := asks("A", "wa", "y"), asks("B", "wb", "x")
			if test.waits != nil {
				wa, wb = test.waits()
			}
			set.Acquire(0, wa)
			if _, ok := set.Circle(0, wa.ID); ok {
				t.Error("a circle of one that waits")
			}
			set.Acquire(0, wb)
			for _, w := range []struct{ id, other, typ string }{{wa.ID, "B", wb.Type}, {wb.ID, "A", "y"}} {
				want := "waits for " + w.other + ", which waits for you in " + w.typ
				reason, ok := set.Circle(time.Second, w.id)
				if ok != test.want || ok && reason.String() != want {
					t.Errorf("%s: %q", w.id, reason)
				}
				if st, _ := set.Status(time.Second, w.id); ok && st.Reason.String() != want {
					t.Errorf("%s: %q", w.id, st.Reason)
				}
			}
		})
	}
}

// Who of three that wait in a circle goes, nobody can say of two alone; and a pool of which a third has a
// lease may let one go.
func TestNoCircleOfThree(t *testing.T) {
	set := with(t, Config{Type: "x", Names: numbered("x", 2)}, Config{Type: "y", Names: numbered("y", 1)})
	must(t, set, 0, asks("A", "a", "x"), "x-0")
	must(t, set, 0, asks("C", "c", "x"), "x-1")
	must(t, set, 0, asks("B", "b", "y"), "y-0")
	must(t, set, 0, asks("A", "wa", "y"))
	must(t, set, 0, asks("B", "wb", "x"))
	for _, id := range []string{"wa", "wb"} {
		if reason, ok := set.Circle(0, id); ok {
			t.Errorf("%s %s", id, reason)
		}
	}
	set.Cancel(time.Second, "c")
	if st, _ := set.Status(time.Second, "wb"); st.State != StateGranted {
		t.Errorf("%+v", st)
	}
}
