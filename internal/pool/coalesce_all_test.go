package pool

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	allDepth  = flag.Int("coalesce-depth", 0, "how many steps the exhaustive test of coalescing takes at most; 0: as many as a test run has time for")
	allFaults = flag.Int("coalesce-faults", 2, "how many of them are faults")
)

// A few requests of two keys and two variants do anything, in any order, with a kill, a cancel,
// a lost answer, an absent leader, a time-out or a restart anywhere. Then no stale run is
// passed on as a fresh one, every request gets an answer, gets only one, and gets the same
// answer again, no superseded request runs, and a key runs once at a time.
//
// Each reachable state is checked once. From each, everything heals.
func TestCoalesceExhaustively(t *testing.T) {
	depth := *allDepth
	switch {
	case depth > 0:
	case raceEnabled || testing.Short():
		depth = 4
	default:
		depth = 6
	}
	for _, mode := range []Coalesce{Join, Once, Latest} {
		for _, names := range []int{1, 2} {
			t.Run(fmt.Sprint(mode, "/", names), func(t *testing.T) {
				t.Parallel()
				a := &all{mode: mode, depth: depth, names: names, seen: map[string]bool{}}
				a.explore(t, nil)
				t.Logf("%d states, %d answers by another's run", len(a.seen), a.merged)
				if a.merged == 0 {
					t.Error("no request was answered by another's run")
				}
			})
		}
	}
}

// all is the result of one exploration.
type all struct {
	mode   Coalesce
	depth  int
	names  int
	seen   map[string]bool
	merged int
}

// explore continues from the state that steps lead to.
func (a *all) explore(t *testing.T, steps []string) {
	c := a.replay(t, steps)
	here := c.String()
	if a.seen[here] {
		return
	}
	a.seen[here] = true
	next := c.choices()
	c.heal()
	a.merged += c.merged
	if len(steps) >= a.depth {
		return
	}
	for _, step := range next {
		a.explore(t, append(slices.Clip(steps), step))
	}
}

func (a *all) replay(t *testing.T, steps []string) *crowd {
	c := &crowd{t: t, mode: a.mode, names: a.names, disk: newDiskOf(Snapshot{}), set: one(t, a.names)}
	for _, step := range steps {
		c.take(step)
	}
	c.check() // earlier replays checked the state after each earlier step
	return c
}

// crowd is a few requests, and their states.
type crowd struct {
	t      *testing.T
	mode   Coalesce
	names  int
	set    *Set
	disk   *disk
	now    time.Duration
	all    []*member
	stamp  int
	steps  []string
	faults int
	absent bool // a client has been away
	merged int
}

// member is one request: its ID is "r" and its number.
type member struct {
	Request
	state    string // "waits", "runs", "over", or what it was told by the run of another
	attached bool
	came     int // came, began: stamps
	began    int
	passed   bool // another request of its key that came later has run since it came
	lease    Lease
}

const (
	memberWaits = "waits"
	memberRuns  = "runs"
	memberOver  = "over"
)

func (c *crowd) fail(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("%s with %d names: %s: %s\n%s", c.mode, c.names, strings.Join(c.steps, ", "), fmt.Sprintf(format, args...), c)
}

// String identifies a state: the state of the Set, and what later checks depend on.
func (c *crowd) String() string {
	var b strings.Builder
	for _, m := range c.all {
		fmt.Fprintf(&b, "%s %s/%s %s there=%t passed=%t", m.ID, m.Key, m.Variant, m.state, m.attached, m.passed)
		for _, other := range c.all {
			fmt.Fprintf(&b, " %t%t", m.came < other.came, m.came < other.began)
		}
		if r := c.set.requests.get(m.ID); r != nil {
			fmt.Fprintf(&b, " missed=%t active=%t/%d until=%v/%v", r.missed, r.active, r.activeCount, r.activeUntil-c.now, r.keptUntil-c.now)
			if r.leader != nil {
				b.WriteString(" follows " + r.leader.ID)
			}
		}
		b.WriteString("\n")
	}
	for _, r := range c.set.types["t"].queue {
		b.WriteString(" " + r.ID)
	}
	fmt.Fprintf(&b, " absent=%t faults=%d", c.absent, c.faults)
	return b.String()
}

// choices are the steps that may follow.
func (c *crowd) choices() (steps []string) {
	if n := len(c.all); n < 4 {
		steps = append(steps, fmt.Sprintf("come r%d a v", n))
		if n > 0 { // the first is like any other
			steps = append(steps, fmt.Sprintf("come r%d a w", n), fmt.Sprintf("come r%d b v", n))
		}
	}
	faulty := c.faults < *allFaults
	for _, m := range c.all {
		switch {
		case m.state == memberRuns:
			steps = append(steps, "finish "+m.ID)
			if faulty {
				steps = append(steps, "kill "+m.ID)
			}
		case m.state == memberWaits && !m.attached:
			steps = append(steps, "again "+m.ID)
		case m.state == memberWaits && faulty:
			steps = append(steps, "away "+m.ID, "cancel "+m.ID, "timeout "+m.ID)
		}
	}
	if faulty && len(c.all) > 0 {
		steps = append(steps, "restart")
	}
	if c.absent {
		steps = append(steps, "pass a minute")
	}
	return steps
}

func (c *crowd) take(step string) {
	c.steps = append(c.steps, step)
	c.stamp++
	words := strings.Fields(step)
	var m *member
	if id := words[min(1, len(words)-1)]; strings.HasPrefix(id, "r") && id != "restart" {
		if i := int(id[1] - '0'); i < len(c.all) {
			m = c.all[i]
		}
	}
	switch words[0] {
	case "come":
		c.come(words[1], words[2], words[3])
	case "again": // the answer or the connection was lost
		c.ask(m)
	case "finish":
		c.finish(m)
	case "kill":
		c.faults++
		m.state = memberOver
		c.set.Break(c.now, m.lease.Name, Act{Reason: "killed"}, true)
	case "away":
		c.faults, c.absent, m.attached = c.faults+1, true, false
		c.set.Detach(c.now, m.ID, 0)
	case "cancel":
		c.faults++
		m.state = memberOver
		c.set.Cancel(c.now, m.ID)
	case "timeout":
		c.faults++
		if c.set.Withdraw(c.now, m.ID) {
			m.state = memberOver
		}
	case "restart":
		c.faults, c.absent = c.faults+1, true
		c.restart()
	case "pass":
		c.now += PlaceKept + 1
		c.set.Advance(c.now)
	}
	c.follow()
}

// come makes a new request. The rule says whether it merges.
func (c *crowd) come(id, key, variant string) {
	m := &member{came: c.stamp, state: memberWaits, Request: Request{
		ID: id, Type: "t", Owner: "owner of " + id, Ask: Ask{Key: key, Coalesce: c.mode, Variant: variant},
	}}
	var last *member
	var runs *member
	for _, other := range c.all {
		switch {
		case other.Key != key:
		case other.state == memberRuns:
			runs = other
		case other.state == memberWaits && !c.joined(other):
			last = other
		}
	}
	if last == nil && c.mode == Once {
		last = runs
	}
	merges := last != nil && (c.mode == Latest || last.Variant == variant)
	c.all = append(c.all, m)
	c.ask(m)
	c.follow()
	st, known := c.set.Status(c.now, id)
	switch {
	case !known:
		c.fail("%s came, and is not known", id)
	case c.mode == Latest && merges && last.state != Superseded.String():
		c.fail("%s came, and %s is %q, not superseded", id, last.ID, last.state)
	case c.mode != Latest && merges && st.Follows == "" && m.state != memberRuns:
		c.fail("%s came and joined nobody", id)
	case (c.mode == Latest || !merges) && st.Follows != "":
		c.fail("%s came and joined %s", id, st.Follows)
	case st.State == StateJoined != (merges && c.mode == Once && last == runs):
		c.fail("%s came and is %s", id, st.State)
	}
}

// joined reports whether m waits for the end of a run that is under way.
func (c *crowd) joined(m *member) bool {
	st, _ := c.set.Status(c.now, m.ID)
	return st.State == StateJoined
}

func (c *crowd) ask(m *member) {
	m.attached = true
	_, err := c.set.Acquire(c.now, m.Request)
	if told := new(CoalescedError); errors.As(err, &told) && m.state == told.Result.String() {
		return
	}
	if err != nil {
		c.fail("%s asks and gets error %v", m.ID, err)
	}
}

// finish ends a run whose command ended by itself: requests that joined it are told the result.
func (c *crowd) finish(m *member) {
	var joined []*member
	for _, other := range c.all {
		if st, _ := c.set.Status(c.now, other.ID); other.state == memberWaits && st.Follows == m.ID {
			joined = append(joined, other)
		}
	}
	result := Exited(int(m.ID[1]))
	if why := c.set.Finish(c.now, ref(m.lease), result); why != "" {
		c.fail("%s finishes: %s", m.ID, why)
	}
	m.state = memberOver
	c.follow()
	for _, other := range joined {
		if other.state != result.String() {
			c.fail("%s had joined the run of %s, and is %q", other.ID, m.ID, other.state)
		}
		c.merged++
		switch {
		case other.Variant != m.Variant || other.Key != m.Key:
			c.fail("%s was told of a run of another variant or key", other.ID)
		case c.mode == Join && m.began < other.came:
			c.fail("%s was told of a run that had begun before it came", other.ID)
		case other.passed && !c.absent:
			c.fail("%s was told of a run after one of its key that came later", other.ID)
		}
	}
	if why := c.set.Finish(c.now, ref(m.lease), Exited(99)); why == "" && c.set.slots[m.lease.Name].lease != nil {
		c.fail("a copy of the end of %s's run ended another", m.ID)
	}
}

func (c *crowd) restart() {
	snap := c.disk.snapshot(rand.New(rand.NewPCG(1, 1)))
	set, err := New([]Config{{Type: "t", Names: numbered("t", c.names)}}, snap, PriorityAging)
	if err != nil {
		c.fail("restart: %v", err)
	}
	joined := map[string]string{}
	for _, m := range c.all {
		if st, _ := c.set.Status(c.now, m.ID); st.State == StateJoined {
			joined[m.ID] = st.Follows
		}
		m.attached = false
	}
	c.set = set
	for id, leader := range joined {
		if st, _ := set.Status(c.now, id); st.State != StateJoined || st.Follows != leader {
			c.fail("%s had joined the run of %s, and is %+v after a restart", id, leader, st)
		}
	}
}

// follow applies what changed.
func (c *crowd) follow() {
	changes := c.set.Drain()
	c.disk.commit(c.now, c.fail, changes)
	defer func() {
		if len(changes) > 0 {
			c.follow() // confirms the grants
		}
	}()
	for _, change := range changes {
		switch change.Kind {
		case Granted:
			c.granted(change)
		case Dropped:
			m := c.all[int(change.ID[1]-'0')]
			if m.state != memberWaits && m.state != memberOver {
				c.fail("%s is off the queue, and was %q", m.ID, m.state)
			}
			if m.state = memberOver; change.Err != nil {
				if told := new(CoalescedError); errors.As(change.Err, &told) {
					m.state = told.Result.String()
				}
			}
			if m.state == Superseded.String() {
				c.merged++
				c.superseded(m)
			}
		case Done:
			m := c.all[int(change.Lease.RequestID[1]-'0')]
			if m.state == memberRuns {
				c.fail("the lease of %s ended: %s", m.ID, change.Reason)
			}
		}
	}
}

func (c *crowd) granted(change Change) {
	m := c.all[int(change.ID[1]-'0')]
	if m.state != memberWaits {
		c.fail("%s was granted a lease, and is %q", m.ID, m.state)
	}
	for _, other := range c.all {
		switch {
		case other == m || other.Key != m.Key:
		case other.state == memberRuns:
			c.fail("%s runs while %s does", m.ID, other.ID)
		case other.state == memberWaits && other.came < m.came:
			st, _ := c.set.Status(c.now, other.ID)
			other.passed = other.passed || st.Follows != m.ID
		}
	}
	m.state, m.began, m.lease = memberRuns, c.stamp, change.Leases[0]
	c.set.Renew(c.now, ref(m.lease), 0)
}

// superseded: a newer request of the key must have taken its place.
func (c *crowd) superseded(m *member) {
	if !slices.ContainsFunc(c.all, func(other *member) bool {
		return other.Key == m.Key && other.came > m.came && (other.state == memberWaits || other.state == memberRuns)
	}) {
		c.fail("%s was superseded by nobody", m.ID)
	}
}

// check checks everything that must hold in every state.
func (c *crowd) check() {
	snap := c.set.Snapshot()
	if got, want := len(c.disk.waiters), len(snap.Waiters); got != want || len(c.disk.leases) != len(snap.Leases) {
		c.fail("durable are %d waiters and %d leases, want %d and %d", got, len(c.disk.leases), want, len(snap.Leases))
	}
	for _, w := range snap.Waiters {
		durable := c.disk.waiters[w.ID]
		if lead := c.set.requests.get(w.Follows); lead != nil && lead.adopted {
			durable.Follows = w.Follows // noted when its leader is granted
		}
		if durable != w {
			c.fail("durable is %+v, want %+v", durable, w)
		}
	}
	for _, m := range c.all {
		st, known := c.set.Status(c.now, m.ID)
		switch {
		case m.state == memberWaits && (!known || st.State != StateQueued && st.State != StateJoined):
			c.fail("%s waits, and is %+v", m.ID, st)
		case m.state == memberRuns && st.State != StateGranted:
			c.fail("%s runs, and is %+v", m.ID, st)
		case m.state != memberWaits && m.state != memberRuns && m.state != memberOver:
			c.ask(m) // it must be told the same again
		}
	}
	c.newest()
}

// newest: in mode latest only the last of the waiters of a key is left, if no client was away.
func (c *crowd) newest() {
	if c.mode != Latest || c.absent {
		return
	}
	waits := map[string]string{}
	for _, m := range c.all {
		if m.state != memberWaits {
			continue
		}
		if other := waits[m.Key]; other != "" {
			c.fail("%s and %s wait for one key", other, m.ID)
		}
		waits[m.Key] = m.ID
	}
}

// heal ends all faults: waiters come back, and runs end by themselves. Then every request must
// have had a run or been told the result of one.
func (c *crowd) heal() {
	for range 4*len(c.all) + 1 {
		waiting := false
		for _, m := range c.all {
			if m.state == memberWaits && !m.attached {
				c.take("again " + m.ID)
			}
		}
		for _, m := range c.all {
			if m.state == memberRuns {
				c.take("finish " + m.ID)
			}
			waiting = waiting || m.state == memberWaits
		}
		if !waiting {
			if held, waits := c.set.Busy(); held+waits > 0 {
				c.fail("%d leases are held and %d requests wait, and all is healed", held, waits)
			}
			c.check()
			return
		}
	}
	c.fail("somebody is never answered")
}
