package proxyserver

import (
	"errors"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// halt refuses every later call. All that wait do so until [term.dismiss].
func (t *term) halt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.haltErr == nil { // else fail has told all that waited
		t.haltErr = errStopping
	}
}

// settle waits, after halt, until each acquire that does not wait has decided whether it gives back
// what it was granted: the last commit has that, too. It gives up after settleTime.
func (t *term) settle() {
	deadline := time.After(settleTime)
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	waiting := t.countWaiting()
	for t.acquires.Load() > waiting {
		select {
		case <-t.failed:
			return
		case <-deadline:
			return
		case <-every.C:
		}
	}
}

func (t *term) countWaiting() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting.count()
}

// dismiss answers all that wait with their places in the queue, after halt.
func (t *term) dismiss() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.deliverAll(func(id string) outcome {
		st, _ := t.set.Brief(lastCall, id) // a stop must not take long because many wait
		return outcome{err: errStopping, status: &st}
	})
}

// end commits the open batch, with the clock. It returns why calls were refused before the
// halt, or why the commit failed. It must be called once, after halt or a failure.
func (t *term) end() error {
	t.commitSem <- struct{}{} // for good: nobody commits after this
	t.mu.Lock()
	last, err := t.open, t.haltErr
	t.finished = true
	t.mu.Unlock()
	t.commit()
	last.deliver()
	t.logBatch(last)
	if errors.Is(err, errStopping) {
		err = last.err
	}
	return err
}

// giveBack ends leases that nobody received.
func (t *term) giveBack(leases []pool.Lease) error {
	err := t.do(func(set *pool.Set, now time.Duration) {
		for _, l := range leases {
			set.Release(now, pool.Ref{Name: l.Name, Generation: l.Generation}, 0)
		}
	})
	if errors.Is(err, errStopping) {
		err = t.giveBackLast(leases)
	}
	if err != nil {
		t.log.Warn("leases are held by a client that has gone, until their TTL is over", "names", namesOf(leases), "error", err)
	}
	return err
}

// giveBackLast ends leases with the last commit of a term that is halted. It does not tell
// the pools: they would grant the names to a waiter that does not hear of it.
func (t *term) giveBackLast(leases []pool.Lease) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished {
		return errStopping
	}
	now := t.clock.now()
	for _, l := range leases {
		if held, ok := t.set.Held(lastCall, l.Name); ok && held.Generation == l.Generation {
			t.open.add(&pool.Change{Kind: pool.Done, Lease: l, Reason: pool.Released, Took: now - l.Granted}, nil)
		}
	}
	return nil
}

// storeEvery is how often the store is checked while nothing is committed: as soon as it is
// gone, a second server may begin in its place.
const storeEvery = time.Second

// watchStore fails the term when its store is gone, until stop.
func (t *term) watchStore(stop <-chan struct{}) {
	if t.store == nil {
		return
	}
	ticker := time.NewTicker(storeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.failed:
			return
		case <-ticker.C:
			t.checkStore()
		}
	}
}

// checkStore fails the term if its store is gone.
func (t *term) checkStore() {
	select {
	case t.commitSem <- struct{}{}:
	default:
		return // the commit under way checks by itself
	}
	defer func() { <-t.commitSem }()
	if err := t.store.Check(); err != nil {
		t.fail(t.storeFailed(err))
	}
}
