package pool

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func mustReconfigure(t testing.TB, set *Set, now time.Duration, configs ...Config) {
	t.Helper()
	if err := set.Reconfigure(now, configs); err != nil {
		t.Fatalf("reconfigure at %v: %v", now, err)
	}
}

// of is a Config with nothing but names.
func of(typ string, names ...string) Config { return Config{Type: typ, Names: names} }

// New names serve the waiters, after the names that were free before.
func TestReconfigureAddsNames(t *testing.T) {
	set := with(t, of("t", "a"))
	must(t, set, 0, req("1"), "a")
	must(t, set, 0, req("2"))
	set.Drain()
	mustReconfigure(t, set, 1*s, of("t", "c", "a", "b"))
	changed(t, set, "granted 2 [c]")
	set.Cancel(2*s, "1")
	mustReconfigure(t, set, 3*s, of("t", "d", "c", "a", "b"))
	must(t, set, 3*s, Request{ID: "3", Type: "t", Ask: Ask{Count: 3}}, "b", "a", "d")
}

// A name that is removed while it is held drains.
func TestReconfigureDrainsNames(t *testing.T) {
	set := with(t, of("t", "a", "b", "c"))
	a := must(t, set, 0, req("1"), "a")[0]
	must(t, set, 0, req("2"), "b")
	set.Drain()
	mustReconfigure(t, set, 1*s, of("t", "b", "d"))
	if p := set.Pools(1 * s)[0]; p.Capacity != 2 || p.InUse != 2 {
		t.Errorf("%d of %d in use, want 2 of 2", p.InUse, p.Capacity)
	}
	for _, l := range set.Leases(1*s, "t", 0, 9) {
		if l.Draining != (l.Name == "a") {
			t.Errorf("listed as draining %v: %s", l.Draining, l.Name)
		}
	}
	must(t, set, 1*s, req("3")) // d is free, but two of two are in use
	if l, why := set.Renew(2*s, ref(a), 0); why != "" || l.Expires != 2*s+DefaultTTL {
		t.Errorf("renewal of a name that drains: %+v, %q", l, why)
	}
	must(t, set, 2*s, req("1"), "a")
	set.Drain()
	set.Release(3*s, ref(a), 0)
	changed(t, set, "released a", "remembered 1", "granted 3 [d]")
	for _, r := range []Ref{ref(a), {Name: "a"}, {Name: "c"}} { // c was never held
		if why := set.Release(4*s, r, 0); why != "" {
			t.Errorf("release of %+v, which was taken out: %q", r, why)
		}
	}
	set.Cancel(5*s, "2")
	set.Cancel(5*s, "3")
	must(t, set, 5*s, Request{ID: "4", Type: "t", Ask: Ask{Count: 2}}, "b", "d")
}

// A name that is removed and put back while it is held is as before.
func TestReconfigurePutsBack(t *testing.T) {
	set := with(t, of("t", "a", "b"))
	must(t, set, 0, req("1"), "a")
	mustReconfigure(t, set, 1*s, of("t", "b"))
	mustReconfigure(t, set, 2*s, of("t", "a", "b"))
	must(t, set, 2*s, req("2"), "b")
	must(t, set, 2*s, req("3"))
	set.Drain()
	set.Cancel(3*s, "1")
	changed(t, set, "released a", "remembered 1", "granted 3 [a]")
}

func TestReconfigureDropsWaiters(t *testing.T) {
	set := with(t, of("t", "a", "b", "c"), of("u", "d"))
	for _, typ := range []string{"t", "u"} {
		n := len(set.types[typ].Names)
		must(t, set, 0, Request{ID: typ, Type: typ, Ask: Ask{Count: n}}, set.types[typ].Names...)
	}
	must(t, set, 1*s, Request{ID: "three", Type: "t", Ask: Ask{Count: 3}})
	must(t, set, 1*s, Request{ID: "two", Type: "t", Ask: Ask{Count: 2}})
	must(t, set, 1*s, Request{ID: "gone", Type: "u", Anonymous: true})
	must(t, set, 1*s, Request{ID: "away", Type: "u"})
	set.Detach(1*s, "away", 0)
	set.Drain()
	mustReconfigure(t, set, 2*s, of("t", "a", "b"))
	changed(t, set,
		"dropped three: the pool can never give that many: 3 asked for, 2 there",
		"dropped gone: there is no pool of this type",
		"dropped away: there is no pool of this type")
	refuse(t, set, 3*s, Request{ID: "three", Type: "t", Ask: Ask{Count: 3}}, ErrTooMany)
	refuse(t, set, 3*s, Request{ID: "away", Type: "u"}, ErrUnknownType)
	must(t, set, 3*s, Request{ID: "u", Type: "u"}, "d") // the held name drains
	set.Drain()
	set.Cancel(4*s, "t")
	changed(t, set, "released a", "released b", "released c", "remembered t", "granted two [a b]")
}

// A waiter that may exceed the limit is dropped if its pool no longer has an overcommit, as a
// new request would be refused: otherwise it would pass a pause, and all other waiters.
func TestReconfigureTakesAwayOvercommit(t *testing.T) {
	counted := Config{Type: "t", Units: 4, Overcommit: 2}
	for _, to := range []Config{{Type: "t", Units: 4}, of("t", "a", "b")} {
		set := with(t, counted)
		must(t, set, 0, Request{ID: "1", Type: "t", Ask: Ask{Count: 1, Weighted: true, Key: "k"}}, "t-1")
		must(t, set, 0, Request{ID: "over", Type: "t", Ask: Ask{Count: 1, Weighted: true, Key: "k", Overcommit: true}})
		set.Pause(0, "t", Act{Reason: "full stop"})
		mustReconfigure(t, set, 1*s, Config{Type: "t", Units: 3, Overcommit: 1})
		if _, waiting := set.Busy(); waiting != 1 {
			t.Errorf("%d wait while there is an overcommit", waiting)
		}
		mustReconfigure(t, set, 1*s, to)
		if held, waiting := set.Busy(); held != 1 || waiting != 0 {
			t.Errorf("%+v: %d held, %d wait", to, held, waiting)
		}
		refuse(t, set, 1*s, Request{ID: "over", Type: "t", Ask: Ask{Count: 1, Weighted: true, Key: "k", Overcommit: true}}, ErrNoOvercommit)
	}
}

// A waiter that now wants too many no longer holds up the waiters behind it.
func TestReconfigureUnblocks(t *testing.T) {
	config := of("t", "a", "b", "c")
	config.Overtake = strictly
	set := with(t, config)
	must(t, set, 0, req("1"), "a")
	must(t, set, 0, Request{ID: "three", Type: "t", Ask: Ask{Count: 3}})
	must(t, set, 0, req("2"))
	set.Drain()
	mustReconfigure(t, set, 1*s, of("t", "a", "b"))
	changed(t, set, "dropped three: the pool can never give that many: 3 asked for, 2 there", "granted 2 [b]")
}

// A pool that is gone exists as long as its leases, and has the rest of them if it comes back
// meanwhile.
func TestReconfigureRemovesAndRestoresPool(t *testing.T) {
	set := with(t, of("t", "a"), of("u", "b", "c"))
	must(t, set, 0, Request{ID: "1", Type: "u"}, "b")
	mustReconfigure(t, set, 1*s, of("t", "a"))
	if pools := set.Pools(1 * s); len(pools) != 2 || pools[1].Type != "u" || pools[1].Capacity != 0 || pools[1].InUse != 1 {
		t.Errorf("pools %+v", pools)
	}
	mustReconfigure(t, set, 2*s, of("u", "e", "b"), of("t", "a"))
	pools := set.Pools(2 * s)
	if len(pools) != 2 || pools[0].Type != "u" || pools[0].Capacity != 2 || pools[0].InUse != 1 {
		t.Errorf("pools %+v", pools)
	}
	must(t, set, 2*s, Request{ID: "2", Type: "u", Ask: Ask{Count: 2}})
	set.Drain()
	set.Cancel(3*s, "1")
	changed(t, set, "released b", "remembered 1", "granted 2 [e b]")

	mustReconfigure(t, set, 4*s, of("t", "a"))
	set.Cancel(5*s, "2")
	if pools := set.Pools(5 * s); len(pools) != 1 {
		t.Errorf("a drained pool is still there: %+v", pools)
	}
	mustReconfigure(t, set, 6*s, of("t", "a"))
	if len(set.types) != 1 {
		t.Error("a drained pool is kept for ever")
	}
}

// A name that moves while it is held counts for the pool that granted it, and is
// granted by the other when it is free.
func TestReconfigureMovesName(t *testing.T) {
	set := with(t, of("t", "a", "b"), of("u", "c", "d"))
	must(t, set, 0, Request{ID: "1", Type: "t"}, "a")
	must(t, set, 0, Request{ID: "x", Type: "u", Ask: Ask{Count: 2}}, "c", "d")
	mustReconfigure(t, set, 1*s, of("t", "b"), of("u", "a", "c", "d"))
	must(t, set, 2*s, Request{ID: "2", Type: "u"})
	must(t, set, 2*s, Request{ID: "3", Type: "t"}) // one of one is in use: a
	set.Drain()
	set.Release(3*s, Ref{Name: "a"}, 0)
	changed(t, set, "released a", "remembered 1", "granted 3 [b]", "granted 2 [a]")

	// A free name moves at once. Moving it to and fro does not add it twice.
	set.Cancel(4*s, "2")
	mustReconfigure(t, set, 4*s, of("t", "a", "b"), of("u", "c", "d"))
	mustReconfigure(t, set, 4*s, of("t", "b"), of("u", "a", "c", "d"))
	mustReconfigure(t, set, 4*s, of("t", "a", "b"), of("u", "c", "d"))
	must(t, set, 5*s, Request{ID: "4", Type: "t"}, "a")
	must(t, set, 5*s, Request{ID: "5", Type: "t"})
}

func TestReconfigureSettings(t *testing.T) {
	config := Config{Type: "t", Names: numbered("t", 3), MaxWaiters: 9}
	set := with(t, config)
	a := must(t, set, 0, Request{ID: "a", Type: "t", Ask: Ask{Count: 3}, TTL: hour}, config.Names...)[0]
	set.Renew(0, ref(a), 0)
	must(t, set, 0, Request{ID: "b", Type: "t", TTL: hour, Anonymous: true})
	must(t, set, 0, req("c"))
	config.MaxTTL, config.MaxWaiters, config.Pace = time.Minute, 2, 10*s
	mustReconfigure(t, set, 1*s, config)

	refuse(t, set, 1*s, req("d"), ErrQueueFull) // the present waiters stay
	if l := set.Pools(1 * s)[0].Leases[0]; l.TTL != hour || l.Expires != hour {
		t.Errorf("a lease was cut short: %+v", l)
	}
	if l, _ := set.Renew(2*s, ref(a), 0); l.TTL != time.Minute || l.Expires != 62*s {
		t.Errorf("renewed %+v, want it bounded", l)
	}
	set.Drain()
	set.Release(20*s, Ref{Name: "t-1"}, 0)
	set.Release(20*s, Ref{Name: "t-2"}, 0)
	changed(t, set, "released t-1", "released t-2") // three paces from the grant of three
	nextIs(t, set, 30*s)
	config.Pace = 8 * s
	mustReconfigure(t, set, 21*s, config)
	nextIs(t, set, 24*s)
	set.Advance(24 * s)
	changes := set.Drain()
	if len(words(changes)) != 1 || changes[0].Leases[0].Expires != 84*s {
		t.Errorf("changes %+v, want a grant within the new maximum", changes)
	}
	config.Pace = 0
	mustReconfigure(t, set, 25*s, config)
	changed(t, set, "granted c [t-2]")
}

// Configurations with any error change nothing.
func TestReconfigureRefusesAsAWhole(t *testing.T) {
	set := with(t, of("t", "a", "b"))
	must(t, set, 0, req("1"), "a")
	must(t, set, 0, Request{ID: "2", Type: "t", Ask: Ask{Count: 2}})
	set.Drain()
	before := fmt.Sprint(set.Snapshot(), set.Pools(0))
	for _, configs := range [][]Config{
		{of("u", "c"), of("t")},
		{of("u", "c"), of("u", "d")},
		{of("u", "c"), of("v", "c")},
		{of("u", "c"), {Type: "v", Names: []string{"d"}, Pace: -1}},
	} {
		if err := set.Reconfigure(1*s, configs); err == nil {
			t.Errorf("%+v was taken", configs)
		}
	}
	changed(t, set)
	if after := fmt.Sprint(set.Snapshot(), set.Pools(0)); after != before {
		t.Errorf("changed from\n%s to\n%s", before, after)
	}
}

// The Set keeps no reference to the caller's configurations.
func TestReconfigureCopies(t *testing.T) {
	names := []string{"a", "b"}
	set := with(t, of("t", names...))
	slices.Reverse(names)
	names[0] = "z"
	mustReconfigure(t, set, 0, of("t", "a", "b"))
	must(t, set, 0, req("1"), "a")
}

// All pools may go, and come back.
func TestReconfigureToNothing(t *testing.T) {
	set := with(t, of("t", "a"))
	must(t, set, 0, req("1"), "a")
	must(t, set, 0, req("2"))
	set.Drain()
	mustReconfigure(t, set, 1*s)
	changed(t, set, "dropped 2: there is no pool of this type")
	set.Cancel(1*s, "1")
	mustReconfigure(t, set, 2*s, of("t", "a"))
	must(t, set, 2*s, req("3"), "a")
}

// A request that joined another may want more units than that. If the pool becomes too small for
// it, it is dropped like any other waiter: otherwise it would be next when the other is away, and
// hold up the pool. It may still hear of a run that has begun.
func TestReconfigureDropsFollowers(t *testing.T) {
	counted := func(units int) Config { return Config{Type: "t", Units: units} }
	joining := func(id string, mode Coalesce, count int) Request {
		return Request{ID: id, Type: "t", Ask: Ask{Count: count, Weighted: true, Key: "k", Coalesce: mode}}
	}
	const tooMany = ": the pool can never give that many: 5 asked for, 3 there"

	set := with(t, counted(5))
	must(t, set, 0, Request{ID: "all", Type: "t", Ask: Ask{Count: 5, Weighted: true}}, "t-1")
	must(t, set, 0, joining("lead", Join, 1))
	must(t, set, 0, joining("large", Join, 5))
	must(t, set, 0, req("behind"))
	follows(t, set, 0, "large", "lead", StateQueued)
	set.Drain()
	mustReconfigure(t, set, 1*s, counted(3))
	changed(t, set, "dropped large"+tooMany)
	set.Detach(1*s, "lead", 0)
	set.Cancel(1*s, "all")
	changed(t, set, "released t-1", "remembered all", "granted behind [t-2]")

	set = with(t, counted(5))
	must(t, set, 0, joining("run", Join, 1), "t-1")
	must(t, set, 0, joining("small", Once, 1))
	must(t, set, 0, joining("large", Once, 5))
	set.Drain()
	mustReconfigure(t, set, 1*s, counted(3))
	follows(t, set, 1*s, "large", "run", StateJoined)
	set.Cancel(1*s, "run")
	changed(t, set, "released t-1", "remembered run", "dropped large"+tooMany, "granted small [t-2]")
}

// Names that were removed take a bounded amount of memory, also those that nobody held.
func TestReconfigureForgetsNames(t *testing.T) {
	set := with(t, of("t", "first"))
	set.recalled.limit = 3
	must(t, set, 0, req("1"), "first")
	for i := range 9 {
		mustReconfigure(t, set, 0, of("t", fmt.Sprint("a", i), fmt.Sprint("b", i)))
	}
	if n := len(set.slots); n != 1+2+3 {
		t.Errorf("%d names are known, want one that is held, two that are configured, and three more", n)
	}
	if why := set.Release(0, Ref{Name: "b7"}, 0); why != "" {
		t.Errorf("release of a name that was just taken out: %q", why)
	}
	mustReconfigure(t, set, 0, of("t", "first", "a0"))
	set.Cancel(0, "1")
	must(t, set, 0, Request{ID: "2", Type: "t", Ask: Ask{Count: 2}}, "a0", "first")
}

// A request that says no count gets one lease, also if its pool computed more units for it and then
// became a listed one. Its client expects no more.
func TestReconfigureFromUnitsToNames(t *testing.T) {
	listed := of("t", "a", "b", "c", "d")
	counted := Config{Type: "t", Units: 9, Unknown: 3}
	costs := Config{Type: "t", Units: 9, Unknown: 3, Cost: &Cost{PerItem: Decimal{billion}}}
	other := of("o", "o-a", "o-b")
	unsaid, two := Ask{Weighted: true}, Ask{Weighted: true, Count: 2}
	items := Ask{Weighted: true, HasItems: true, Items: 3}
	for _, c := range []struct {
		what          string
		before, after Config
		ask           Ask
		want          int // units afterwards; zero: it is dropped with ErrNoCost
		granted       []string
	}{
		{"counted becomes listed", counted, listed, unsaid, 1, []string{"a"}},
		{"counted becomes listed, with a count", counted, listed, two, 2, []string{"a", "b"}},
		{"listed becomes counted", listed, counted, unsaid, 1, []string{"t-1"}},
		{"listed becomes counted, with a count", listed, counted, two, 2, []string{"t-1"}},
		{"items without a cost", costs, listed, items, 0, nil},
		{"items with another cost", costs, counted, items, 3, []string{"t-1"}},
	} {
		merges := c.ask
		merges.Key, merges.Coalesce = "k", Join
		first := Ask{Weighted: true, Also: "t"}
		if c.ask.Count > 0 {
			first.Also = fmt.Sprint("t=", c.ask.Count)
		}
		t.Run(c.what, func(t *testing.T) {
			set := with(t, c.before, other)
			if _, err := set.Pause(0, "t", Act{}); err != nil {
				t.Fatal(err)
			}
			ids := []string{"alone", "lead", "follower"}
			must(t, set, 0, Request{ID: "alone", Type: "t", Ask: c.ask})
			must(t, set, 0, Request{ID: "lead", Type: "t", Ask: merges})
			must(t, set, 0, Request{ID: "follower", Type: "t", Ask: merges})
			if !c.ask.HasItems {
				ids = append(ids, "several")
				must(t, set, 0, Request{ID: "several", Type: "o", Ask: first})
			}
			check := func(set *Set) {
				t.Helper()
				got := map[string]int{}
				for _, w := range set.Waiters(0, "t", 0, 9) {
					got[w.ID] = w.Units
				}
				for _, id := range ids {
					if got[id] != c.want {
						t.Errorf("%s wants %d units, want %d", id, got[id], c.want)
					}
				}
			}
			back := restarted(t, set, c.after, other)
			check(back)
			check(restarted(t, back, c.after, other))
			check(restarted(t, restarted(t, back, c.before, other), c.after, other))

			set.Drain()
			mustReconfigure(t, set, 0, c.after, other)
			check(set)
			if c.want == 0 {
				changes := set.Drain()
				if last := changes[len(changes)-1]; !errors.Is(last.Err, ErrNoCost) {
					t.Errorf("dropped with %v", last.Err)
				}
				return
			}
			if _, err := set.Resume(0, "t", Act{}); err != nil {
				t.Fatal(err)
			}
			must(t, set, 0, Request{ID: "alone", Type: "t", Ask: c.ask}, c.granted...)
		})
	}
}
