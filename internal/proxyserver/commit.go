package proxyserver

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/eventlog"
	"github.com/leasectl/leasectl/internal/proxyserver/metrics"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// ErrStore is the error of a server whose store failed: it can make nothing durable.
var ErrStore = errors.New("the store failed, and the server ends")

// Why a term refuses every call.
var (
	errStopping = errors.New("the server is stopping")
	errPanicked = errors.New("a call failed half-way, and the server ends")
)

// refusesAll reports whether err is why a term refuses every call.
func refusesAll(err error) bool {
	return errors.Is(err, errStopping) || errors.Is(err, ErrStore) || errors.Is(err, errPanicked) || errors.Is(err, store.ErrNotLeader)
}

// batch is the content of one transaction: all that was decided while the transaction
// before it was being committed.
type batch struct {
	changes    []pool.Change
	generation uint64        // the last one given, changes included
	urgent     bool          // an answer may wait for it; false: only waiters were added
	saveClock  bool          // the clock must be saved, even without changes
	arrived    time.Duration // lease clock when the first new waiter arrived; never: there is none
	deliveries []delivery
	steps      []int // where changes may be divided: see [store.Batch]

	done chan struct{} // closed when the batch is durable, or failed with err
	err  error
}

func newBatch(generation uint64) *batch {
	return &batch{generation: generation, arrived: never, done: make(chan struct{})}
}

// add notes a change, and the calls that learn of it when it is durable. A change that
// only says that somebody waits is not urgent: no answer depends on it.
func (b *batch) add(c *pool.Change, calls []call) {
	b.changes = append(b.changes, *c)
	if c.Kind == pool.Queued || c.Kind == pool.Joined {
		b.arrived = min(b.arrived, c.Waiter.Arrived)
	} else {
		b.urgent = true
	}
	if c.Kind == pool.Granted {
		b.generation = c.Leases[len(c.Leases)-1].Generation
	}
	if calls != nil {
		b.deliveries = append(b.deliveries, delivery{calls, outcome{leases: c.Leases, err: c.Err, took: c.Took}})
	}
}

// endStep ends a step: what comes next belongs to another call of the pools.
func (b *batch) endStep() {
	if n := len(b.changes); n > 0 && (len(b.steps) == 0 || b.steps[len(b.steps)-1] < n) {
		b.steps = append(b.steps, n)
	}
}

// committer makes decisions durable, one batch after the other, and then delivers them. It
// is the part of a [term] that decides nothing.
//
// Each loop under its mutex delays every call. Those that pass over more than the leases or pools of one
// request:
//
//   - a grant or an end: of each pool that changed, the first [pool.Lookahead] candidates, and the other
//     pools that requests want together with it (pool/overtake.go, class.go)
//   - a grant: the requests of several pools that it goes ahead of (pool/class.go, pass)
//   - a place that is asked for, or the end of a slice: those ahead in the queue, unless all want one unit
//     of this pool alone and no key (pool/estimate.go, order.go)
//   - the leader of followers that goes: its followers (pool/coalesce.go)
//   - a name that is asked for or reserved: the free names of its pool (pool/names.go)
//   - a scrape, a list of pools: the waiters, for the oldest (pool/status.go)
//   - a page of a pool: its leases, sorted, its followers, and those ahead of each waiter of several pools in its
//     other pools (pool/status.go, estimate.go)
//   - a search on the page: all leases and waiters (pool/status.go)
//   - a release of all that an owner has: all leases and waiters (pool/release.go)
//   - every ten seconds: all leases, for those of version 1 that end soon (pool/lookup.go)
//   - a pause, a reservation: the queue of the pool (pool/reason.go)
//   - a new configuration: all names, leases and waiters (pool/reconfigure.go)
//   - the end of a time in which the server stood still: all leases and waiters (pool/restore.go)
//   - a stop or a failure: the calls that wait (waiters.go)
//
// Calls for more than [fewLeases], lists, pages and releases of all take turns before they come to the mutex: see turnstile.
//
// With 100,000 leases and 10,000 waiters the longest that a job can cause takes some milliseconds: a release
// of all, and a page. A page of 10,000 waiters of several pools takes some tens.
type committer struct {
	store    store.Store    // nil: in memory
	election store.Election // nil: this server always leads
	clock    clock
	metrics  *metrics.Counts
	log      *slog.Logger
	events   *eventlog.Log
	past     *past.Past
	changed  atomic.Uint64 // counts commits, also those that only save the clock

	commitSem chan struct{} // holds a value while somebody commits
	failed    chan struct{} // closed by fail

	mu         sync.Mutex // guards what follows, and the pools; never held during I/O
	waiting    waiters
	spare      []pool.Change // of an earlier batch, for the next one; nil: there is none
	open       *batch        // collects changes for the next commit
	committing *batch        // nil: no commit is under way
	saved      time.Duration // lease clock of the last commit, which may be under way
	haltErr    error         // why every call is refused; nil: calls are served
}

// undurable returns the batch that an answer from the present state waits for; nil if that
// state is durable, apart from new waiters. begun says that its commit is under way. The caller
// holds c.mu.
func (c *committer) undurable() (b *batch, begun bool) {
	if c.open.urgent || c.open.saveClock {
		return c.open, false
	}
	return c.committing, c.committing != nil
}

// awaitCommit blocks until b is durable, or failed. The first caller that waits for a batch
// commits it. So a single client waits for no other goroutine, and many clients share
// one transaction.
func (c *committer) awaitCommit(b *batch) error {
	select {
	case <-b.done:
		return b.err
	case <-c.failed:
		return c.failure()
	case c.commitSem <- struct{}{}:
	}
	handedOn := false
	defer func() { // after a panic too, or the term could not end
		if !handedOn {
			<-c.commitSem
		}
	}()
	select {
	case <-b.done:
	default:
		runtime.Gosched() // calls that can be decided now join the batch
		c.commit()        // nobody else commits, so b is the open batch
		if len(b.deliveries) == 0 {
			c.logBatch(b)
			break
		}
		// Waiting calls hear first, and a goroutine of its own writes the log. The scheduler
		// runs next the goroutine that became ready last. So the last waiting call answers
		// before the log is written. Without any, a goroutine would cost as much as the log.
		handedOn = true
		go c.endCommit(b)
		b.deliver()
		runtime.Gosched() // a waiting call runs next, and answers before this call does
	}
	return b.err
}

// endCommit logs the changes of b, and then lets the next commit begin: so the lines of the
// log are in order. It recovers a panic itself, since a goroutine has no caller.
func (c *committer) endCommit(b *batch) {
	defer func() {
		if cause := recover(); cause != nil {
			c.failCall(cause)
		}
		<-c.commitSem
	}()
	growStack(0)
	c.logBatch(b)
}

// fail refuses every call with err from now on, and answers all that wait. After the first
// failure it does nothing.
func (c *committer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

// failLocked is fail for a caller that holds c.mu.
func (c *committer) failLocked(err error) {
	select {
	case <-c.failed:
		return
	default:
	}
	c.haltErr = err
	c.waiting.deliverAll(func(string) outcome { return outcome{err: err} })
	close(c.failed)
}

// failure returns the error of fail; nil if nothing failed.
func (c *committer) failure() error {
	select {
	case <-c.failed:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.haltErr
}

// failCall refuses every call after one panicked outside of the pools, and returns the error
// of the refusals.
func (c *committer) failCall(cause any) error {
	err := c.panicked(cause)
	c.fail(err)
	return err
}

// panicked turns the cause of a panic into an error, and logs it with the stack.
func (c *committer) panicked(cause any) error {
	c.log.Error("a call panicked", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return fmt.Errorf("%w: %v", errPanicked, cause)
}

// commit makes the open batch durable. The caller holds commitSem, and calls logBatch and
// deliver afterwards.
func (c *committer) commit() {
	c.mu.Lock()
	b := c.open
	c.open, c.committing = newBatch(b.generation), b
	c.open.changes, c.spare = c.spare, nil
	now := c.clock.now()
	c.saved = max(c.saved, now)
	c.mu.Unlock()

	if b.err = c.failure(); b.err == nil { // else it depends on a commit that failed
		b.err = c.save(b, now)
	}

	c.mu.Lock()
	c.committing = nil
	if b.err != nil {
		c.failLocked(b.err)
	}
	c.mu.Unlock()
	if b.err == nil { // before the calls are answered: their clients might read both
		c.metrics.Changed(b.changes)
		c.past.Changed(b.changes)
		c.changed.Add(1)
	}
	close(b.done)
}

// mostSpare bounds the memory that the next batch uses again, in changes.
const mostSpare = 256

// save makes b durable.
func (c *committer) save(b *batch, now time.Duration) (err error) {
	if c.store == nil {
		return nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = c.panicked(cause)
		}
	}()
	began := time.Now()
	err = c.store.Commit(store.Batch{Changes: b.changes, Steps: b.steps, Clock: now, Generation: b.generation})
	c.metrics.Committed(len(b.changes), time.Since(began), err)
	if err != nil {
		err = c.storeFailed(err)
	}
	return err
}

// storeFailed returns why every call is refused after the store failed with err.
func (c *committer) storeFailed(err error) error {
	if c.election != nil {
		return &notLeaderError{election: c.election, cause: err}
	}
	err = fmt.Errorf("%w: %w", ErrStore, err)
	c.log.Error("nothing is granted or released from now on", "error", err)
	return err
}

// deliver tells the waiting calls the outcome of b. It does not read b.changes, whose memory
// another batch may use already: see logBatch.
func (b *batch) deliver() {
	for _, d := range b.deliveries {
		if b.err != nil {
			d.outcome = outcome{err: b.err}
		}
		d.send()
	}
}

// logBatch logs the changes of b, and keeps their memory for the next batch. It is called
// once for each commit, before the next one begins.
func (c *committer) logBatch(b *batch) {
	if b.err == nil {
		c.events.Changed(b.changes)
	}
	if cap(b.changes) <= mostSpare {
		clear(b.changes) // let go of what they refer to
		c.mu.Lock()
		c.spare = b.changes[:0]
		c.mu.Unlock()
	}
}

// growStack makes the stack of a new goroutine as large as the pools and the log need, at
// once. Otherwise the stack would double twice on the way, with more frames to copy.
//
//go:noinline
func growStack(i int) byte {
	var room [5 << 10]byte
	return room[i]
}
