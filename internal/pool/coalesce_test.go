package pool

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// merging is a request for one name of "t" under the key "k".
func merging(id string, mode Coalesce, variant string) Request {
	return Request{ID: id, Type: "t", Owner: "owner of " + id, Ask: Ask{Key: "k", Coalesce: mode, Variant: variant}}
}

// told expects that the request has ended with the result of another's run, and gets it
// whenever it asks.
func told(t testing.TB, set *Set, now time.Duration, q Request, want Result) {
	t.Helper()
	for range 2 {
		_, err := set.Acquire(now, q)
		if e := new(CoalescedError); !errors.As(err, &e) || e.Result != want || !errors.Is(err, ErrEnded) {
			t.Fatalf("%s is told %v, want that %v", q.ID, err, want)
		}
	}
}

func follows(t testing.TB, set *Set, now time.Duration, id, leader string, state State) {
	t.Helper()
	if st, _ := set.Status(now, id); st.Follows != leader || st.State != state {
		t.Fatalf("%s is %+v, want it %s and to follow %q", id, st, state, leader)
	}
}

func finish(t testing.TB, set *Set, now time.Duration, name string, o Result) {
	t.Helper()
	if why := set.Finish(now, Ref{Name: name}, o); why != "" {
		t.Fatalf("finish of %s: %s", name, why)
	}
}

func TestJoin(t *testing.T) {
	set := one(t, 2)
	a, b, c, d := merging("a", Join, "v"), merging("b", Join, "v"), merging("c", Once, "v"), merging("d", Join, "w")
	e := merging("e", Join, "v")
	must(t, set, 0, a, "t-0")
	must(t, set, 0, b) // a runs already
	must(t, set, 0, c)
	must(t, set, 0, d)
	must(t, set, 0, e) // it could join only the last waiter, which has another variant
	follows(t, set, 0, "b", "", StateQueued)
	follows(t, set, 0, "c", "b", StateQueued)
	follows(t, set, 0, "e", "", StateQueued)
	set.Drain()
	finish(t, set, 0, "t-0", Exited(3))
	changed(t, set, "released t-0", "remembered a", "granted b [t-1]")
	follows(t, set, 0, "c", "b", StateJoined)
	finish(t, set, 0, "t-1", Exited(0))
	changed(t, set, "released t-1", "remembered b",
		"dropped c: the run that it joined ended with exit code 0", "remembered c", "granted d [t-0]")
	told(t, set, 0, c, Exited(0))
	told(t, set, EndedKept-1, c, Exited(0))
}

func TestOnce(t *testing.T) {
	set := one(t, 1)
	a, b, c, d := merging("a", Once, "v"), merging("b", Once, "v"), merging("c", Once, "w"), merging("d", Once, "v")
	must(t, set, 0, a, "t-0")
	must(t, set, 0, b)
	follows(t, set, 0, "b", "a", StateJoined)
	must(t, set, 0, c)
	must(t, set, 0, d) // the waiter of the key does something else
	follows(t, set, 0, "c", "", StateQueued)
	follows(t, set, 0, "d", "", StateQueued)
	if set.Withdraw(0, "b") {
		t.Error("the wait of one timed out whose run has begun")
	}
	finish(t, set, 0, "t-0", Exited(7))
	told(t, set, 0, b, Exited(7))
	if st, _ := set.Status(0, "c"); st.State != StateGranted {
		t.Errorf("c is %+v", st)
	}
}

// The newest of the requests that came during a run takes the place of the one before it. The
// older one is superseded, and is told so after a restart, too.
func TestLatest(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, merging("a", Latest, "1"), "t-0")
	must(t, set, 0, merging("b", Latest, "2"))
	must(t, set, 0, req("other"))
	must(t, set, 0, merging("c", Latest, "3"))
	must(t, set, 0, merging("d", Latest, "3"))
	told(t, set, 0, merging("b", Latest, "2"), Superseded)
	if st, _ := set.Status(0, "d"); st.Place != 1 || st.Length != 2 {
		t.Errorf("d is %+v", st)
	}
	if w := set.Snapshot().Waiters; len(w) != 2 {
		t.Errorf("durable are %+v", w)
	}
	set = restarted(t, set, Config{Type: "t", Names: numbered("t", 1)})
	told(t, set, 0, merging("b", Latest, "2"), Superseded)
	told(t, set, 0, merging("c", Latest, "3"), Superseded)
	must(t, set, 0, merging("d", Latest, "3"))
	finish(t, set, 0, "t-0", Exited(0)) // the run is not cancelled
	if st, _ := set.Status(0, "d"); st.State != StateGranted {
		t.Errorf("d is %+v", st)
	}
}

// A restart supersedes nobody who was not superseded before: two that wait, since another stood between
// them when the newer one came, wait on.
func TestRestartSupersedesNobody(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, merging("a", Latest, "1"), "t-0")
	must(t, set, 0, merging("b", Latest, "2"))
	between := req("between")
	between.Key = "k"
	must(t, set, 0, between)
	must(t, set, 0, merging("c", Latest, "3"))
	set.Withdraw(0, "between")
	set = restarted(t, set, Config{Type: "t", Names: numbered("t", 1)})
	must(t, set, 0, merging("b", Latest, "2"))
	must(t, set, 0, merging("c", Latest, "3"))
	if st, _ := set.Status(0, "c"); st.Place != 2 || st.Length != 2 {
		t.Errorf("c is %+v", st)
	}
}

// The result of a run of several leases is what the release of the last one says, over a restart, too.
func TestResultOfAPartlyFinishedRun(t *testing.T) {
	for _, last := range []Result{0, Exited(3)} {
		for _, restarts := range []bool{false, true} {
			set := one(t, 2)
			run := merging("run", Once, "v")
			run.Count = 2
			must(t, set, 0, run, "t-0", "t-1")
			joins := merging("joins", Once, "v")
			joins.Count = 2
			must(t, set, 0, joins)
			finish(t, set, 0, "t-0", Exited(7))
			if restarts {
				set = restarted(t, set, Config{Type: "t", Names: numbered("t", 2)})
				must(t, set, 0, joins)
			}
			if last == 0 {
				set.Release(0, Ref{Name: "t-1"}, 0)
			} else {
				finish(t, set, 0, "t-1", last)
			}
			st, ok := set.Status(0, "joins")
			if got := ok && st.State == StateGranted; got != (last == 0) {
				t.Errorf("the last ended with %d, restart %t: the other is %+v", last, restarts, st)
			}
			if last != 0 {
				told(t, set, 0, joins, last)
			}
		}
	}
}

// A request merges only with requests that have the same token, the same urgency, and a mode
// that agrees.
func TestWhoMerges(t *testing.T) {
	base := func(id string) Request {
		q := merging(id, Join, "v")
		q.Owner = BindOwner("red", "me")
		return q
	}
	for name, change := range map[string]func(*Request){
		"":                 func(*Request) {},
		"another owner":    func(q *Request) { q.Owner = BindOwner("red", "you") },
		"once":             func(q *Request) { q.Coalesce = Once },
		"another token":    func(q *Request) { q.Owner = BindOwner("blue", "me") },
		"no token":         func(q *Request) { q.Owner = "me" },
		"another variant":  func(q *Request) { q.Variant = "w" },
		"latest":           func(q *Request) { q.Coalesce = Latest },
		"does not merge":   func(q *Request) { q.Coalesce = 0 },
		"goes first":       func(q *Request) { q.Overcommit = true },
		"without an id":    func(q *Request) { q.Anonymous = true },
		"of another key":   func(q *Request) { q.Key = "l" },
		"without a key":    func(q *Request) { q.Key = "" },
		"another pool's k": func(q *Request) { q.Type = "u" },
	} {
		set := with(t, Config{Type: "t", Units: 1, Overcommit: 1}, Config{Type: "u", Units: 1})
		must(t, set, 0, base("runs"), "t-1")
		must(t, set, 0, base("waits"))
		q := base("comes")
		change(&q)
		if _, err := set.Acquire(0, q); err != nil {
			t.Fatal(err)
		}
		st, _ := set.Status(0, "comes")
		want := name == "" || name == "another owner" || name == "once"
		if (st.Follows == "waits") != want {
			t.Errorf("%s: %+v, want that it merges: %t", name, st, want)
		}
	}
	set := one(t, 1)
	must(t, set, 0, merging("a", Once, "v"), "t-0")
	try := merging("b", Once, "v")
	try.Try = true
	if st := exhausted(t, set, 0, try); st.Reason.Kind != leaseapi.WaitKey {
		t.Errorf("%+v", st)
	}
}

// A leader whose run does not end by itself passes on no result: the oldest follower waits at
// the place of its own arrival, and the others follow it.
func TestPromotion(t *testing.T) {
	for name, end := range map[string]func(*Set){
		"released":  func(set *Set) { set.Release(0, Ref{Name: "t-0"}, 0) },
		"cancelled": func(set *Set) { set.Cancel(0, "a") },
		"broken":    func(set *Set) { set.Break(0, "t-0", Act{Reason: "drill"}, true) },
		"expired":   func(set *Set) { set.Advance(ProvisionalTTL) },
		"broken, and then finished": func(set *Set) {
			set.Break(0, "t-0", Act{Reason: "drill"}, false)
			set.Finish(0, Ref{Name: "t-0"}, Exited(0))
		},
	} {
		set := one(t, 1)
		must(t, set, 0, merging("a", Once, "v"), "t-0")
		must(t, set, 0, merging("b", Once, "v"))
		must(t, set, 0, req("between"))
		must(t, set, 0, merging("c", Once, "v"))
		end(set)
		if st, _ := set.Status(set.now, "b"); st.State != StateGranted {
			t.Errorf("%s: b is %+v", name, st)
		}
		follows(t, set, set.now, "c", "b", StateJoined)
		finish(t, set, set.now, "t-0", Exited(1))
		told(t, set, set.now, merging("c", Once, "v"), Exited(1))
	}
}

// The run of a request for several names passes its result on when it has released all of them,
// and passes none on if one was lost, also before a restart.
func TestResultOfSeveralNames(t *testing.T) {
	for i := range 4 {
		lost, restarts := i&1 > 0, i&2 > 0
		set := one(t, 2)
		a := merging("a", Once, "v")
		a.Count = 2
		must(t, set, 0, a, "t-0", "t-1")
		must(t, set, 0, merging("b", Once, "v"))
		if lost {
			set.Break(0, "t-0", Act{Reason: "drill"}, true)
		} else {
			finish(t, set, 0, "t-0", Exited(0))
		}
		if restarts {
			set = restart(t, set, 0)
			must(t, set, 0, merging("b", Once, "v"))
		}
		follows(t, set, 0, "b", "a", StateJoined)
		finish(t, set, 0, "t-1", Exited(0))
		if st, _ := set.Status(0, "b"); (st.State == StateGranted) != lost {
			t.Errorf("lost %t, restarts %t: b is %+v", lost, restarts, st)
		}
	}
}

// While a leader is away, an active follower takes its turn, and then the leader follows that
// follower.
func TestAbsentLeader(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, req("x"), "t-0")
	must(t, set, 0, merging("a", Join, "v"))
	must(t, set, 0, req("behind"))
	must(t, set, 0, merging("b", Join, "v"))
	must(t, set, 0, merging("c", Join, "v"))
	set.Detach(0, "a", 0)
	set.Drain()
	set.Cancel(0, "x")
	changed(t, set, "released t-0", "remembered x", "joined a", "joined c", "granted b [t-0]")
	must(t, set, 0, merging("a", Join, "v"))
	follows(t, set, 0, "a", "b", StateJoined)
	finish(t, set, 0, "t-0", Exited(4))
	told(t, set, 0, merging("a", Join, "v"), Exited(4))

	// A new follower of a leader that is away is granted leases at once.
	set = one(t, 1)
	must(t, set, 0, req("x"), "t-0")
	must(t, set, 0, merging("a", Join, "v"))
	set.Detach(0, "a", 0)
	set.Cancel(0, "x")
	must(t, set, 0, merging("b", Join, "v"), "t-0")
	follows(t, set, 0, "a", "b", StateJoined)
	set.Advance(PlaceKept) // and then it is dropped
	if _, known := set.Status(PlaceKept, "a"); known {
		t.Error("a is still waited for")
	}
}

// Followers count as waiters, and a request that supersedes another does not count twice.
func TestFollowersCount(t *testing.T) {
	set := with(t, Config{Type: "t", Names: []string{"n"}, MaxWaiters: 2})
	must(t, set, 0, merging("a", Once, "v"), "n")
	must(t, set, 0, merging("b", Once, "v"))
	must(t, set, 0, merging("c", Once, "v"))
	refuse(t, set, 0, merging("d", Once, "v"), ErrQueueFull)
	set = with(t, Config{Type: "t", Names: []string{"n"}, MaxWaiters: 1})
	must(t, set, 0, merging("a", Latest, "v"), "n")
	must(t, set, 0, merging("b", Latest, "v"))
	must(t, set, 0, merging("c", Latest, "v"))
}

// Requests that had joined a run that is still held stay joined after a restart. The others
// merge anew, in the order of their arrival.
func TestFollowersOutliveRestart(t *testing.T) {
	config := Config{Type: "t", Names: []string{"n"}}
	set := with(t, config)
	restart := func() {
		t.Helper()
		set = restarted(t, set, config)
	}
	must(t, set, 0, merging("a", Join, "v"), "n")
	must(t, set, 0, merging("b", Join, "v"))
	must(t, set, 0, merging("c", Join, "v"))
	restart()
	follows(t, set, 0, "c", "b", StateQueued)
	must(t, set, 0, merging("c", Join, "v"))
	finish(t, set, 0, "n", Exited(0)) // c is attached, and b may come back
	if st, _ := set.Status(0, "c"); st.State != StateGranted {
		t.Errorf("c is %+v", st)
	}
	restart()
	follows(t, set, 0, "b", "c", StateJoined) // join never joins a run, but b had joined before
	finish(t, set, 0, "n", Exited(5))
	told(t, set, 0, merging("b", Join, "v"), Exited(5))
}

// A pool that is gone serves no follower either. A pool that no longer has as many units as a
// follower wants goes on with the next follower.
func TestFollowersOfAPoolThatChanged(t *testing.T) {
	set := counted(t, 10)
	a := weighs("a", 10)
	a.Key, a.Coalesce = "k", Once
	large, small := a, a
	large.ID, small.ID, small.Count = "large", "small", 2
	must(t, set, 0, a, "t-1")
	must(t, set, 0, large)
	must(t, set, 0, small)
	set.Drain()
	mustReconfigure(t, set, 0, Config{Type: "t", Units: 4})
	set.Cancel(0, "a")
	changed(t, set, "released t-1", "remembered a",
		"dropped large: the pool can never give that many: 10 asked for, 4 there", "granted small [t-2]")
	must(t, set, 0, func() Request { q := small; q.ID = "last"; return q }())
	mustReconfigure(t, set, 0, Config{Type: "u", Units: 4})
	set.Drain()
	set.Cancel(0, "small")
	changed(t, set, "released t-2", "remembered small", "dropped last: there is no pool of this type")
}

// The lists show which request follows which, after the queue.
func TestFollowersAreListed(t *testing.T) {
	set := one(t, 1)
	must(t, set, 0, merging("a", Once, "v"), "t-0")
	must(t, set, 0, merging("b", Once, "v"))
	must(t, set, 0, req("waits"))
	p := set.Pools(0)[0]
	if p.Waiting != 1 || p.Following != 1 || len(p.Waiters) != 2 {
		t.Fatalf("%+v", p)
	}
	if w := p.Waiters[1]; w.ID != "b" || w.Follows != "a" || w.Place != 2 || w.Reason.Kind != leaseapi.WaitJoined {
		t.Errorf("%+v", w)
	}
	if _, waiting := set.Busy(); waiting != 2 {
		t.Errorf("%d wait", waiting)
	}
}

// 1,000 requests that come during a run need only one more run, and get 1,000 answers.
func TestBurst(t *testing.T) {
	set := one(t, 3)
	must(t, set, 0, merging("runs", Join, "v"), "t-0")
	for i := range 1000 {
		must(t, set, 0, merging(fmt.Sprint(i), Join, "v"))
	}
	finish(t, set, 0, "t-0", Exited(0))
	set.Drain()
	finish(t, set, 0, "t-1", Exited(2))
	answers, runs := 0, 0
	for _, c := range set.Drain() {
		switch c.Kind {
		case Granted:
			runs++
		case Dropped:
			answers++
		}
	}
	if held, waiting := set.Busy(); runs != 0 || answers != 999 || held+waiting != 0 {
		t.Errorf("%d more runs, %d answers, %d held, %d wait", runs, answers, held, waiting)
	}
}

// Followers that leave in the order in which they came, as after a restart to which nobody comes back,
// cost a change or two each: not one for each that is left.
func TestFollowersLeaveInOrder(t *testing.T) {
	const group = 1000
	set, err := New([]Config{{Type: "t", Names: numbered("t", 1), MaxWaiters: 2 * group}}, Snapshot{}, PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	must(t, set, 0, merging("run", Join, "v"), "t-0")
	for i := range group {
		must(t, set, 0, merging(fmt.Sprint("f", i), Join, "v"))
	}
	set.Drain()
	for i := range group {
		set.Cancel(0, fmt.Sprint("f", i))
	}
	if n := len(set.Drain()); n > 4*group {
		t.Errorf("%d requests left with %d changes", group, n)
	}
}
