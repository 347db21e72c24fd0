package pool

import (
	"errors"
	"testing"
)

// A paused pool grants nothing; leases are renewed and released as usual. When the pool is
// resumed, the queue goes on where it was.
func TestPause(t *testing.T) {
	set := one(t, 2)
	a := must(t, set, 0, req("a"), "t-0")[0]
	set.Drain()
	if _, err := set.Pause(1*s, "t", Act{Reason: "the account is throttled"}); err != nil {
		t.Fatal(err)
	}
	must(t, set, 1*s, req("b"))
	must(t, set, 2*s, req("c"))
	refuse(t, set, 2*s, Request{ID: "d", Type: "t", Try: true}, ErrExhausted)
	if _, why := set.Renew(3*s, ref(a), 0); why != "" {
		t.Errorf("renewal: %s", why)
	}
	if why := set.Release(4*s, ref(a), 0); why != "" {
		t.Errorf("release: %s", why)
	}
	changed(t, set, "paused t: the account is throttled", "renewed t-0", "released t-0", "remembered a")
	if st, _ := set.Status(5*s, "b"); st.Reason.String() != "paused: the account is throttled" || st.EstimateMax != 0 {
		t.Errorf("b: %+v", st)
	}
	p := set.Pools(5 * s)[0]
	if p.Paused == nil || *p.Paused != (Pause{Type: "t", Reason: "the account is throttled", Since: 1 * s}) {
		t.Errorf("pool %+v", p)
	}
	if pause, err := set.Resume(6*s, "t", Act{}); pause != *p.Paused || err != nil {
		t.Fatal(pause, err)
	}
	changed(t, set, "resumed t", "granted b [t-1]", "granted c [t-0]")
	if pause, err := set.Resume(6*s, "t", Act{}); pause != (Pause{}) || err != nil {
		t.Errorf("twice: %v, %v", pause, err)
	}
}

// A pause outlives a restart, and a configuration without its pool.
func TestPauseLasts(t *testing.T) {
	configs := []Config{{Type: "t", Names: numbered("t", 1)}, {Type: "u", Names: numbered("u", 1)}}
	set := with(t, configs...)
	if _, err := set.Pause(1*s, "t", Act{Reason: "drill"}); err != nil {
		t.Fatal(err)
	}
	mustReconfigure(t, set, 2*s, configs[1:]...)
	set = restarted(t, set, configs[1:]...)
	mustReconfigure(t, set, 2*s, configs...)
	must(t, set, 3*s, req("a"))
	if _, err := set.Pause(3*s, "none", Act{Reason: "drill"}); !errors.Is(err, ErrUnknownType) {
		t.Errorf("no such type: %v", err)
	}
	if _, err := set.Resume(3*s, "none", Act{}); !errors.Is(err, ErrUnknownType) {
		t.Errorf("no such type: %v", err)
	}
	mustReconfigure(t, set, 4*s, configs[1:]...) // a pool that is gone can be resumed, too
	if pause, err := set.Resume(5*s, "t", Act{}); pause.Reason != "drill" || err != nil {
		t.Errorf("resume: %v, %v", pause, err)
	}
}

// A removed waiter is off the queue, and later requests with its id are told why, also after a
// restart.
func TestRemove(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("a"), "t-0")
	must(t, set, 1*s, req("b"))
	must(t, set, 1*s, req("c"))
	set.Drain()
	q, err := set.Remove(2*s, "b", Act{Reason: "wrong account"})
	if err != nil || q.ID != "b" {
		t.Fatal(q, err)
	}
	changed(t, set, "dropped b: an operator removed the request: wrong account", "remembered b")
	removed := func(set *Set, err error) {
		t.Helper()
		if r, ok := errors.AsType[*RemovedError](err); !ok || r.Reason != "wrong account" || !errors.Is(err, ErrEnded) {
			t.Errorf("error %v", err)
		}
	}
	_, err = set.Acquire(3*s, req("b"))
	removed(set, err)
	_, err = set.Remove(3*s, "b", Act{Reason: "again"})
	removed(set, err)
	if st, _ := set.Status(3*s, "c"); st.Place != 1 {
		t.Errorf("c is at place %d", st.Place)
	}
	if _, err := set.Remove(3*s, "a", Act{Reason: "x"}); !errors.Is(err, ErrNotQueued) {
		t.Errorf("one that is granted: %v", err)
	}
	if _, err := set.Remove(3*s, "x", Act{Reason: "x"}); !errors.Is(err, ErrUnknownRequest) {
		t.Errorf("one that never was: %v", err)
	}
	back := restarted(t, set, Config{Type: "t", Names: numbered("t", 1)})
	_, err = back.Acquire(3*s, req("b"))
	removed(back, err)
	back.Advance(4*s + EndedKept)
	if back.ended.has("b") {
		t.Error("the reason is remembered for ever")
	}
}
