package proxyserver

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/eventlog"
	"github.com/leasectl/leasectl/internal/proxyserver/metrics"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// How often the lease clock is saved if nothing else is committed. A crash takes back the
// time since then.
const (
	idleEvery = 5 * time.Second
	// busyEvery is how often while a lease is held or a request waits. New waiters are
	// committed with the clock.
	busyEvery = time.Second
	// firstSave is how long after its start a server first saves the clock. Each later
	// interval is as long as all before it together, up to the above. So at least half of
	// a server's life counts, however short it is, and servers that die soon after their
	// start do not keep a lease alive.
	firstSave = 20 * time.Millisecond
)

// term is a time in which this server decides who gets a lease: the pools, their clock, and
// the committer that makes their decisions durable. It begins from the state in the store.
// When it has ended another term may begin. The HTTP front outlives terms.
type term struct {
	committer
	lead     store.Lead // nil: only the server ends the term
	maxWait  time.Duration
	busy     func(n int)   // is called with the number of leases and waiters after each run; nil: not needed
	version1 version1Watch // only keepTime uses it

	lastWaits atomic.Bool  // the last acquire had to wait: the next one probably must, too
	turns     turnstile    // of dear calls
	acquires  atomic.Int64 // those that wait, and those that may give back what they are granted

	// Guarded by committer.mu.
	set           *pool.Set
	alarm         alarm         // rings when the pools have something to do; keepTime waits for it without the lock
	keeping       bool          // keepTime runs
	ran           time.Duration // lease clock of the last call
	lastAnonymous uint64        // number of the last request without an id
	finished      bool          // the last commit is under way, or over
}

// termOptions are the options of a term, beside the pools and the store.
type termOptions struct {
	maxWait   time.Duration
	aging     time.Duration // see [pool.New]
	metrics   *metrics.Counts
	log       *slog.Logger
	busy      func(n int)          // as term.busy
	now       func() time.Time     // nil: [time.Now]
	suspended func() time.Duration // nil: [suspend.Total]
	election  store.Election       // nil: this server always leads
}

// beginTerm begins a term from the state in st; nil: from nothing, in memory. When it
// returns, the time that a restart gives to leases and waiters is durable. Nothing happens
// by itself until [term.keepTime] runs. The caller closes st after [term.end].
func beginTerm(pools []pool.Config, st store.Store, opts termOptions) (*term, error) {
	var snap pool.Snapshot
	if st != nil {
		var err error
		if snap, err = st.Load(); err != nil {
			return nil, err
		}
	}
	open, saved := newBatch(snap.Generation), snap.Clock
	clock := startClock(snap.Clock, opts.now, opts.suspended)
	snap.Generation = clock.beyond(snap.Generation)
	set, err := pool.New(pools, snap, opts.aging)
	if err != nil {
		return nil, err
	}
	t := &term{
		committer: committer{
			store: st, election: opts.election, clock: clock, metrics: opts.metrics,
			log: opts.log, events: eventlog.New(opts.log, clock.until), past: past.New(clock.read, clock.now),
			commitSem: make(chan struct{}, 1), failed: make(chan struct{}),
			waiting: make(waiters), open: open, saved: saved,
		},
		set:     set,
		maxWait: opts.maxWait,
		busy:    opts.busy,
		alarm:   newAlarm(),
	}
	t.lead, _ = st.(store.Lead)
	t.collect()
	if t.durable() {
		t.open.saveClock = true
		if err := t.awaitCommit(t.open); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *term) durable() bool { return t.store != nil }

// do does what is due, runs op on the pools, and blocks until all that op did and saw is
// durable. After an error it may not be durable, and each later call fails too.
func (t *term) do(op func(set *pool.Set, now time.Duration)) error {
	return t.afterRun(t.run(op))
}

// doInTurn is do with an op that passes over many leases: callers take turns with these.
func (t *term) doInTurn(caller string, op func(set *pool.Set, now time.Duration)) error {
	end := t.turns.take(caller)
	b, begun, err := t.run(op)
	end()
	return t.afterRun(b, begun, err)
}

// afterRun blocks until what run returned is durable.
func (t *term) afterRun(b *batch, begun bool, err error) error {
	if err != nil {
		return err
	}
	if b != nil {
		// A commit that began after op proves that this server still led then.
		if err := t.awaitCommit(b); err != nil || !begun {
			return err
		}
	}
	return t.stillLeads()
}

// attempt is do with an op that can fail. It returns the error of do, else that of op.
func (t *term) attempt(op func(set *pool.Set, now time.Duration) error) error {
	var refused error
	err := t.do(func(set *pool.Set, now time.Duration) { refused = op(set, now) })
	return cmp.Or(err, refused)
}

// attemptOver is attempt with an op of a caller that passes over so many leases: doInTurn if they are many.
func (t *term) attemptOver(leases int, caller string, op func(set *pool.Set, now time.Duration) error) error {
	if leases <= fewLeases {
		return t.attempt(op)
	}
	var refused error
	err := t.doInTurn(caller, func(set *pool.Set, now time.Duration) { refused = op(set, now) })
	return cmp.Or(err, refused)
}

// stillLeads returns an error if this server leads no longer: then an answer that waits for
// no commit, or for one that had begun before, does not hold. It is called after the answer was
// made, since the process may be stopped in between for any time.
func (t *term) stillLeads() error {
	if t.lead == nil {
		return nil
	}
	err := t.lead.Holds()
	if err != nil {
		return t.loseLead(err)
	}
	return nil
}

// loseLead fails the term because this server leads no longer, and returns why calls are
// refused.
func (t *term) loseLead(err error) error {
	t.fail(&notLeaderError{election: t.election, cause: err})
	return t.failure()
}

// run does what is due and runs op, under the lock. It returns the batch that the answer
// waits for; nil: the answer depends on durable state only. begun is as that of undurable.
func (t *term) run(op func(set *pool.Set, now time.Duration)) (b *batch, begun bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.haltErr != nil {
		return nil, false, t.haltErr
	}
	defer func() {
		// The pools may be half-way between two states.
		if cause := recover(); cause != nil {
			err = t.panicked(cause)
			t.failLocked(err)
		}
	}()
	t.clock.wake()
	now := t.clock.now()
	if late := now - max(t.alarm.at, t.ran); t.keeping && late > lateBy {
		t.log.Warn("the server stood still: leases have their full TTL again, and waiters a minute to come back", "for", round(late))
		t.metrics.Stalled()
		t.set.Stalled(now)
	}
	t.ran = now
	t.set.SetWall(t.clock.stamp())
	t.set.Advance(now)
	t.collect() // so that op finds no waiter whose outcome is decided
	op(t.set, now)
	t.collect()
	t.setAlarm(now)
	if t.busy != nil {
		held, waiting := t.set.Busy()
		t.busy(held + waiting)
	}
	b, begun = t.undurable()
	return b, begun, nil
}

// totals returns the state of the pools, durable or not. It does nothing that is due.
func (t *term) totals() []pool.PoolStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.set.Totals(lastCall)
}

// collect moves the changes of the pools to the open batch, except arrivals that are not
// stored. The caller holds t.mu, as for all methods below except keepTime.
func (t *term) collect() {
	changes := t.set.Drain()
	t.open.changes = slices.Grow(t.open.changes, len(changes))
	for i := range changes {
		c := &changes[i] // copying it would cost more than most that is done with it
		if c.Kind == pool.Queued && (c.Waiter.Anonymous || !t.durable()) {
			continue
		}
		var calls []call
		if c.Kind == pool.Granted || c.Kind == pool.Dropped {
			calls = t.waiting.remove(c.ID)
		}
		t.open.add(c, calls)
	}
	t.open.endStep()
}

// setAlarm sets the alarm to the next time at which something is due.
func (t *term) setAlarm(now time.Duration) {
	next := never
	if due, ok := t.set.Next(); ok {
		next = due
	}
	next = min(next, t.commitDue(now))
	if held, waiting := t.set.Busy(); held+waiting > 0 {
		next = min(next, now+busyEvery) // else nobody would notice a stall
	}
	t.alarm.setBefore(next, now)
}

// commitDue returns when the open batch must be committed even if no answer waits for it.
func (t *term) commitDue(now time.Duration) time.Duration {
	if !t.durable() {
		return never
	}
	held, waiting := t.set.Busy()
	every := idleEvery
	if held+waiting > 0 {
		every = busyEvery
	}
	saved := t.saved
	committed := t.open.urgent || t.open.saveClock // a call commits it, and the clock with it
	if committed {
		saved = now
	}
	due := saved + min(every, max(firstSave, saved-t.clock.base))
	if came := t.open.arrived; held == 0 && came < never && !committed {
		due = max(due, came+busyEvery) // else due at once, if the clock was saved long ago
	}
	return due
}

// keepTime does what is due whenever the alarm rings, until stop or until calls
// are refused. It does not wait for commits: else a slow disk would be taken for a stall.
func (t *term) keepTime(stop <-chan struct{}) {
	var commits sync.WaitGroup
	defer commits.Wait()
	t.mu.Lock()
	t.keeping = true
	t.alarm.ringNow()
	t.mu.Unlock()
	for {
		select {
		case <-stop:
			return
		case <-t.alarm.timer.C:
		}
		var ending []pool.Lease
		b, _, err := t.run(func(set *pool.Set, now time.Duration) { // run itself does what is due
			t.alarm.at = never
			ending = t.version1.look(set, now)
			if now >= t.commitDue(now) {
				t.open.saveClock = true
			}
		})
		if err != nil {
			return
		}
		if b != nil {
			commits.Go(func() { t.awaitCommit(b) }) // the next run returns its error, too
		}
		t.version1.warn(ending, t.metrics, t.events)
	}
}
