package pool

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// ReleaseAll ends the leases and waiters of the owners that are meant, and none of others, who
// get the free names in their order. The ids never get a lease again.
func TestReleaseAll(t *testing.T) {
	set := one(t, 2)
	mine, theirs := req("mine"), req("theirs")
	mine.Owner, theirs.Owner = "me", "you"
	must(t, set, 0, mine, "t-0")
	must(t, set, 0, theirs, "t-1")
	waits, behind := req("waits"), req("behind")
	waits.Owner, behind.Owner = "me", "you"
	for _, q := range []Request{waits, behind} {
		if leases, err := set.Acquire(0, q); leases != nil || err != nil {
			t.Fatalf("%s: %v, %v", q.ID, leases, err)
		}
	}
	set.Drain()
	names, withdrawn := set.ReleaseAll(s, func(owner string) bool { return owner == "me" })
	if !slices.Equal(names, []string{"t-0"}) || withdrawn != 1 {
		t.Errorf("released %v, withdrew %d", names, withdrawn)
	}
	l, held := set.Held(s, "t-0")
	if !held || l.RequestID != "behind" {
		t.Errorf("t-0 is %+v", l)
	}
	for _, q := range []Request{mine, waits} {
		if _, err := set.Acquire(s, q); !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", q.ID, err)
		}
	}
	names, withdrawn = set.ReleaseAll(s, func(owner string) bool { return strings.HasPrefix(owner, "m") })
	if len(names) > 0 || withdrawn > 0 {
		t.Errorf("again: released %v, withdrew %d", names, withdrawn)
	}
}

// A follower that the pool can no longer serve is taken off with the run that it joined, once.
func TestReleaseAllOfAFollowerThatIsTooLarge(t *testing.T) {
	set := counted(t, 10)
	run, small, large := merging("run", Once, "v"), merging("small", Once, "v"), merging("large", Once, "v")
	large.Count, large.Weighted = 5, true
	run.Owner, small.Owner, large.Owner = "me", "me", "me"
	must(t, set, 0, run, "t-1")
	acquire(t, set, 0, small)
	acquire(t, set, 0, large)
	mustReconfigure(t, set, 0, Config{Type: "t", Units: 3})
	if names, withdrawn := set.ReleaseAll(s, func(owner string) bool { return owner == "me" }); !slices.Equal(names, []string{"t-1"}) || withdrawn != 2 {
		t.Errorf("released %v, withdrew %d", names, withdrawn)
	}
	for _, q := range []Request{run, small, large} {
		if _, err := set.Acquire(s, q); !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", q.ID, err)
		}
	}
}

// None of those that go becomes the leader of others that go.
func TestReleaseAllOfFollowers(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("run"), "t-0")
	for _, id := range []string{"a", "b", "c"} {
		q := merging(id, Join, "v")
		q.Owner = "me"
		acquire(t, set, 0, q)
	}
	follows(t, set, 0, "c", "a", StateQueued)
	set.Drain()
	set.ReleaseAll(s, func(owner string) bool { return owner == "me" })
	const ended = ": the request has ended or was cancelled"
	changed(t, set, "dropped c"+ended, "remembered c", "dropped b"+ended, "remembered b", "dropped a"+ended, "remembered a")
}
