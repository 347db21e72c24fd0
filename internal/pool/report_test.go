package pool

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// adaptive is a pool of ten names whose limit starts at four.
func adaptive(t *testing.T) *Set {
	t.Helper()
	return with(t, Config{Type: "t", Names: numbered("t", 10), Adapt: &Adapt{Floor: 2, Start: 4}})
}

func say(t *testing.T, set *Set, id string, outcome Outcome, counts bool) {
	t.Helper()
	if got, err := set.Report(0, Report{RequestID: id, Outcome: outcome, Detail: "said of " + id}); err != nil || got != counts {
		t.Fatalf("%s of %s counts: %v, %v; want %v", outcome, id, got, err, counts)
	}
}

func status(set *Set) PoolStatus { return set.Totals(0)[0] }

// A pool grants up to its limit. A throttled lease cuts the limit. Leases stay held, and more
// are granted only below the new limit.
func TestLimit(t *testing.T) {
	set := adaptive(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		if l, err := set.Acquire(0, req(id)); err != nil || len(l) != 1 {
			t.Fatalf("%s got %v, %v", id, l, err)
		}
	}
	if l, err := set.Acquire(0, req("e")); err != nil || l != nil {
		t.Fatalf("beyond the limit came %v, %v", l, err)
	}
	say(t, set, "b", OutcomeThrottled, true)
	if st := status(set); st.Limit != 3 || st.InUse != 4 || st.Wall != 4 ||
		st.Moved != (Move{From: 4, To: 3, Detail: "said of b"}) {
		t.Fatalf("the pool is %+v", st)
	}
	say(t, set, "a", OutcomeThrottled, true) // it ran together with b
	if st := status(set); st.Limit != 3 {
		t.Fatalf("the limit is %d", st.Limit)
	}
	set.Cancel(0, "a")
	if st := status(set); st.InUse != 3 || st.Waiting != 1 {
		t.Fatalf("the pool is %+v", st)
	}
	set.Cancel(0, "b")
	if st := status(set); st.InUse != 3 || st.Waiting != 0 {
		t.Fatalf("the pool is %+v", st)
	}
}

// A lease that ends ok while the pool is in full use raises the limit, and the waiters are
// granted the new units. A lease that has no report, expires, or ends while little is in use
// moves nothing.
func TestLimitRises(t *testing.T) {
	set := adaptive(t)
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	for _, id := range ids {
		set.Acquire(0, req(id))
	}
	end := func(id string, limit int) {
		t.Helper()
		set.Release(0, Ref{Name: set.requests.get(id).leases[0].Name}, 0)
		if st := status(set); st.Limit != limit {
			t.Fatalf("after %s the limit is %d, want %d", id, st.Limit, limit)
		}
	}
	end("a", 4) // without a report
	for _, id := range []string{"b", "c", "d"} {
		say(t, set, id, OutcomeOK, true)
		end(id, 4)
	}
	say(t, set, "a", OutcomeOK, true) // a late report
	if st := status(set); st.Limit != 5 || st.InUse != 5 || st.Waiting != 0 || st.Moved.From != 4 {
		t.Fatalf("the pool is %+v", st)
	}
	end("e", 5)
	for _, id := range []string{"f", "g", "h"} { // at four, three and two of five
		say(t, set, id, OutcomeOK, true)
		end(id, 5)
	}
	if r := set.Snapshot().Reports[0]; r.OK != 0 || len(r.Tally) != 2 || r.Tally[0] != (Tally{4, 4, 0}) || r.Tally[1] != (Tally{5, 3, 0}) {
		t.Errorf("reported is %+v", r)
	}
	say(t, set, "i", OutcomeOK, true)
	set.Advance(ProvisionalTTL)
	if r := set.Snapshot().Reports[0]; r.OK != 0 || r.Tally[1].OK != 4 {
		t.Errorf("after an expiry, reported is %+v", r)
	}
}

// Raising the limit takes as many units as the limit, whoever decided how many a lease has.
func TestLimitRisesByUnits(t *testing.T) {
	for what, ask := range map[string]Ask{
		"said":     {Count: 10, Weighted: true},
		"unknown":  {Weighted: true},
		"neither":  {}, // as version 1 asks
		"by names": {Count: 10},
	} {
		set := with(t, Config{Type: "t", Units: 20, Unknown: 10, Adapt: &Adapt{Start: 10}})
		if _, err := set.Acquire(0, Request{ID: "a", Type: "t", Ask: ask}); err != nil {
			t.Fatal(err)
		}
		say(t, set, "a", OutcomeOK, true)
		set.Cancel(0, "a")
		if st := status(set); st.Limit != 11 {
			t.Errorf("%s: the limit is %d", what, st.Limit)
		}
	}
}

// A lease that was broken moves no limit, even if its holder releases it and reports ok. Nor
// does a request of which one lease ended without a release.
func TestLimitStaysAfterABreak(t *testing.T) {
	ended := func(what string, act func(set *Set)) {
		t.Helper()
		set := adaptive(t)
		if _, err := set.Acquire(0, Request{ID: "a", Type: "t", Ask: Ask{Count: 4}}); err != nil {
			t.Fatal(err)
		}
		say(t, set, "a", OutcomeOK, true)
		act(set)
		set.Cancel(0, "a")
		if r := set.Snapshot().Reports[0]; r.OK != 0 || r.Limit > 4 || r.Tally[0] != (Tally{4, 1, 0}) {
			t.Errorf("%s: reported is %+v", what, r)
		}
	}
	ended("broken", func(set *Set) { set.Break(0, "t-3", Act{Reason: "stuck"}, false) })
	ended("broken at once", func(set *Set) { set.Break(0, "t-0", Act{Reason: "stuck"}, true) })
}

// A report counts once, and throttled beats ok, also long after the lease has ended,
// and over restarts.
func TestReportsCountOnce(t *testing.T) {
	config := Config{Type: "t", Names: numbered("t", 1)}
	set := with(t, config)
	restart := func() {
		t.Helper()
		set = restarted(t, set, config)
	}
	tally := func(want Tally) {
		t.Helper()
		if got := status(set).Tally; len(got) != 1 || got[0] != want {
			t.Fatalf("the tally is %+v, want %+v", got, want)
		}
	}
	refused := func(id string, want error) {
		t.Helper()
		if _, err := set.Report(0, Report{RequestID: id, Outcome: OutcomeOK}); !errors.Is(err, want) {
			t.Errorf("a report of %s: %v, want %v", id, err, want)
		}
	}
	must(t, set, 0, Request{ID: "a", Type: "t", Owner: "owner"}, "t-0")
	set.Acquire(0, req("b"))
	refused("x", ErrUnknownRequest)
	refused("b", ErrNoLease)
	say(t, set, "a", OutcomeOK, true)
	restart()
	say(t, set, "a", OutcomeOK, false)
	set.Cancel(0, "a")
	tally(Tally{1, 1, 0})
	restart()
	say(t, set, "a", OutcomeOK, false)
	say(t, set, "a", OutcomeThrottled, true)
	tally(Tally{1, 0, 1})
	restart()
	say(t, set, "a", OutcomeThrottled, false)
	say(t, set, "a", OutcomeOK, false)
	tally(Tally{1, 0, 1})
	set.Cancel(0, "gone")
	refused("gone", ErrNoLease)
	if _, err := set.Report(0, Report{RequestID: "a", Outcome: 7}); !errors.Is(err, ErrOutcome) {
		t.Errorf("an outcome that is none: %v", err)
	}
	if _, owner, ok := set.HolderOf(0, "a"); !ok || owner != "owner" {
		t.Errorf("a was held by %q, %v", owner, ok)
	}
	set.Advance(EndedKept - 1)
	say(t, set, "a", OutcomeThrottled, false)
	set.Advance(EndedKept)
	refused("a", ErrUnknownRequest)
}

// Throttled is the last word about a held lease. A lease that expires in full use moves
// nothing, whatever was reported of it.
func TestLastWord(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 2), Adapt: &Adapt{Start: 1}})
	must(t, set, 0, req("a"), "t-0")
	say(t, set, "a", OutcomeThrottled, true)
	say(t, set, "a", OutcomeOK, false)
	set.Cancel(0, "a")
	must(t, set, 0, req("b"), "t-1")
	say(t, set, "b", OutcomeOK, true)
	set.Advance(ProvisionalTTL)
	if st := status(set); st.InUse != 0 || st.Limit != 1 || st.Tally[0] != (Tally{1, 1, 1}) {
		t.Errorf("the pool is %+v", st)
	}
}

// Limit, wall and gate outlive a restart, and the bounds of a new configuration hold.
func TestLimitIsDurable(t *testing.T) {
	set := adaptive(t)
	must(t, set, 0, req("a"), "t-0")
	say(t, set, "a", OutcomeThrottled, true)
	snap := set.Snapshot()
	for _, test := range []struct {
		names int
		adapt *Adapt
		want  int
	}{{10, &Adapt{Floor: 2, Start: 9}, 3}, {10, &Adapt{Floor: 5}, 5}, {2, &Adapt{}, 2}, {10, nil, 10}} {
		back, err := New([]Config{{Type: "t", Names: numbered("t", test.names), Adapt: test.adapt}}, snap, PriorityAging)
		if err != nil {
			t.Fatal(err)
		}
		if st := status(back); st.Limit != test.want || st.Wall != 4 {
			t.Errorf("%+v: the limit is %d with wall %d, want %d", test, st.Limit, st.Wall, test.want)
		}
	}
}

// The limit of a pool that a configuration leaves out for a while is remembered, even over a
// restart.
func TestLimitOutlivesItsPool(t *testing.T) {
	set := adaptive(t)
	configs := []Config{set.types["t"].Config}
	must(t, set, 0, req("a"), "t-0")
	say(t, set, "a", OutcomeThrottled, true)
	set.Cancel(0, "a")
	if err := set.Reconfigure(0, nil); err != nil || len(set.Totals(0)) != 0 {
		t.Fatalf("without the pool there is %+v: %v", set.Totals(0), err)
	}
	for name, back := range map[string]*Set{"put back": set, "put back after a restart": restarted(t, set)} {
		if err := back.Reconfigure(0, configs); err != nil {
			t.Fatal(err)
		}
		if st := status(back); st.Limit != 3 || st.Wall != 4 || st.Tally[0] != (Tally{4, 0, 1}) {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// The pace follows the limit.
func TestPaceFollowsLimit(t *testing.T) {
	set := with(t, Config{Type: "t", Names: numbered("t", 10), Adapt: &Adapt{Start: 4}, Hold: 60 * s})
	must(t, set, 0, req("a"), "t-0")
	if st := status(set); st.NextGrantIn != 15*s {
		t.Errorf("the next grant is in %v", st.NextGrantIn)
	}
	say(t, set, "a", OutcomeThrottled, true)
	if st := status(set); st.NextGrantIn != 20*s {
		t.Errorf("after the cut the next grant is in %v", st.NextGrantIn)
	}
}

// A pool counts for a limited number of limits: the furthest are dropped.
func TestTallyIsBounded(t *testing.T) {
	var l limit
	for i := range 2 * MaxTally {
		l.tally(i+1).OK++
	}
	if got := l.reports.Tally; len(got) != MaxTally || got[0].Limit != MaxTally+1 {
		t.Errorf("%d limits from %d on", len(got), got[0].Limit)
	}
	l.tally(1).OK++
	if got := l.reports.Tally; len(got) != MaxTally || got[0].Limit != 1 || got[MaxTally-1].Limit != 2*MaxTally-1 {
		t.Errorf("%d limits from %d to %d", len(got), got[0].Limit, got[MaxTally-1].Limit)
	}
	for _, c := range []struct{ limit, first, last int }{
		{3 * MaxTally / 2, 1, 2*MaxTally - 1}, // is there
		{MaxTally / 4, 1, 2*MaxTally - 2},
		{MaxTally / 2, 1, 2*MaxTally - 3},
		{MaxTally - 1, 1, 2*MaxTally - 4},
		{10 * MaxTally, MaxTally / 4, 10 * MaxTally},
		{6 * MaxTally, MaxTally / 2, 10 * MaxTally},
		{(MaxTally/2 + 10*MaxTally) / 2, MaxTally / 2, 6 * MaxTally}, // as far from both
	} {
		l.tally(c.limit).OK++
		if got := l.reports.Tally; len(got) != MaxTally || got[0].Limit != c.first || got[MaxTally-1].Limit != c.last || l.tally(c.limit).OK == 0 {
			t.Errorf("after %d: %d limits from %d to %d, want from %d to %d", c.limit, len(got), got[0].Limit, got[MaxTally-1].Limit, c.first, c.last)
		}
	}
}

// A report that takes another back makes no count negative, even if the count for its limit was
// dropped meanwhile.
func TestTallyTakenBack(t *testing.T) {
	var l limit
	l.takeBack(EndedLease{Limit: 7})
	if got := l.reports.Tally[0]; got.OK != 0 {
		t.Errorf("the tally is %+v", got)
	}
}

// What a limit has found outlives a capacity that is smaller for a while, whatever is reported meanwhile; a
// cut then begins at the smaller capacity.
func TestLimitOutlivesASmallerCapacity(t *testing.T) {
	for _, start := range []int{0, 20} {
		pool := func(names int) []Config {
			return []Config{{Type: "t", Names: numbered("t", names), Adapt: &Adapt{Start: min(start, names)}}}
		}
		set := with(t, pool(40)...)
		dip := func(outcome Outcome, id string, want int) {
			t.Helper()
			mustReconfigure(t, set, 0, pool(5)...)
			set.Acquire(0, req(id))
			say(t, set, id, outcome, true)
			set.Cancel(0, id)
			mustReconfigure(t, set, 0, pool(40)...)
			if got := status(set).Limit; got != want {
				t.Errorf("start %d: after %v the limit is %d, want %d", start, outcome, got, want)
			}
		}
		dip(OutcomeOK, "a", status(set).Limit)
		dip(OutcomeThrottled, "b", 4)
	}
}

// A pool is in full use, too, while somebody waits whom its limit keeps, or the pace that follows from it:
// so jobs of any size, and a hold that is too long, let the limit rise to the capacity within a day. A pace
// that does not follow from the limit shows nothing.
func TestLimitRisesWhileItDelays(t *testing.T) {
	for _, test := range []struct {
		Config
		size, want int // of each job; the limit after a day
	}{
		{Config{Names: numbered("t", 40), Adapt: &Adapt{Start: 20}, Hold: 20 * time.Minute}, 1, 40},
		{Config{Names: numbered("t", 40), Adapt: &Adapt{Start: 20}, Hold: 30 * time.Minute}, 1, 40},
		{Config{Units: 2000, Adapt: &Adapt{Start: 1000}}, 350, 2000},
		{Config{Names: numbered("t", 40), Adapt: &Adapt{Start: 20}, Pace: 2 * time.Minute}, 1, 20},
	} {
		test.Type = "t"
		set := with(t, test.Config)
		asked := 0
		ask := func(now time.Duration) {
			asked++
			if _, err := set.Acquire(now, Request{ID: fmt.Sprint(asked), Type: "t", Ask: Ask{Count: test.size, Weighted: true}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 60 {
			ask(0)
		}
		for now, due := set.Next(); due && now < 24*hour; now, due = set.Next() {
			set.Advance(now)
			for changes := set.Drain(); len(changes) > 0; changes = set.Drain() {
				for _, c := range slices.Clone(changes) {
					if c.Kind == Granted {
						set.Report(now, Report{RequestID: c.ID, Outcome: OutcomeOK})
						set.Release(now, ref(c.Leases[0]), 20*time.Minute)
						ask(now)
					}
				}
			}
		}
		if st := set.Totals(24 * hour)[0]; st.Limit != test.want {
			t.Errorf("hold %v, pace %v, jobs of %d: the limit is %d, want %d; %d in use", test.Hold, test.Pace, test.size, st.Limit, test.want, st.InUse)
		}
	}
}
