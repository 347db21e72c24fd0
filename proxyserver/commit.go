package proxyserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// clockEvery is how often the lease clock is saved while leases are held and
// nothing else is committed: a crash gives back at most that much of a delayed
// release's time.
const clockEvery = 5 * time.Second

// Why a server does nothing any more.
var (
	errStopping = errors.New("the server is stopping")
	errFailed   = errors.New("the store failed, and the server must be restarted")
	errPanicked = errors.New("a call failed half-way, and the server must be restarted")
)

// batch is what goes into one transaction: all changes that were made while
// the one before it was being committed.
type batch struct {
	changes []pool.Change
	clock   bool // the clock is to be saved, changes or not
	told    []told

	done chan struct{} // closed when it is durable, or failed with err
	err  error
}

// told is an outcome that connections are waiting for.
type told struct {
	conns []*conn
	outcome
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// do runs op on the pools, with the lease clock and everything done that was
// due, and returns when all that op did and saw is durable. An error means that
// it is not, and that there is no use in trying again.
func (s *Server) do(op func(now time.Duration)) error {
	b, err := s.run(op)
	if err != nil || b == nil {
		return err
	}
	return s.settle(b)
}

// run runs op under the lock and returns the batch that its answer waits for;
// nil if that is durable already.
func (s *Server) run(op func(now time.Duration)) (*batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return nil, s.closed
	}
	s.closed = errPanicked // stands if one of the next calls does not return
	now := s.clock.now()
	s.set.Advance(now)
	s.collect() // so that op finds no waiter whose outcome is decided
	op(now)
	s.collect()
	s.rearm(now)
	s.noteIdle(now)
	s.closed = nil

	if len(s.open.changes) > 0 || s.open.clock {
		return s.open, nil
	}
	return s.flying, nil
}

// collect moves what changed to the open batch.
func (s *Server) collect() {
	for _, c := range s.set.Drain() {
		switch c.Kind {
		case pool.Granted:
			s.tell(c.ID, outcome{leases: c.Leases})
		case pool.Dropped:
			s.tell(c.ID, outcome{err: c.Err, took: c.Took})
		}
		s.open.changes = append(s.open.changes, c)
	}
}

// settle returns when b is durable. Whoever waits for a batch that nobody
// commits yet commits it himself: then a single client waits for no other
// goroutine, and many share one transaction.
func (s *Server) settle(b *batch) error {
	select {
	case <-b.done:
	case s.leader <- struct{}{}:
		select {
		case <-b.done:
		default:
			s.commit() // nobody else commits, so b is the open batch
		}
		<-s.leader
	}
	return b.err
}

// commit makes the open batch durable, and then known. Its caller holds
// s.leader.
func (s *Server) commit() {
	s.mu.Lock()
	b := s.open
	s.open, s.flying = newBatch(), b
	now := s.clock.now()
	failed := errors.Is(s.closed, errFailed)
	s.mu.Unlock()

	switch {
	case failed: // it was made from a state that will not be
		b.err = errFailed
	case s.store != nil:
		began := time.Now()
		b.err = s.store.commit(b.changes, now)
		s.metrics.committed(len(b.changes), time.Since(began), b.err)
	}

	s.mu.Lock()
	s.flying = nil
	switch {
	case b.err == nil:
		s.saved = max(s.saved, now)
	case !failed:
		b.err = fmt.Errorf("%w: %w", errFailed, b.err)
		s.closed = b.err
		s.tellAll(func(string) outcome { return outcome{err: errFailed} })
	}
	s.mu.Unlock()
	if b.err != nil && !failed {
		s.log.Error("nothing is granted or released until a restart", "error", b.err)
	}

	if b.err == nil {
		s.metrics.changed(b.changes) // before anybody is told, who might look
	}
	for _, t := range b.told {
		if b.err != nil {
			t.outcome = outcome{err: b.err}
		}
		t.send()
	}
	close(b.done)
	// The lines are written before the next commit begins, so they are in order.
	// To let it begin first, and write them meanwhile, was not measurably faster.
	if b.err == nil {
		s.logChanges(b.changes)
	}
}

// rearm sets the alarm to the next thing that happens by itself.
func (s *Server) rearm(now time.Duration) {
	next := never
	if due, ok := s.set.Next(); ok {
		next = due
	}
	if held, _ := s.set.Busy(); held > 0 && s.store != nil {
		next = min(next, s.saved+clockEvery)
	}
	if next < s.armed {
		s.armed = next
		s.alarm.Reset(next - now)
	}
}

// keepTime does what is due whenever something is, until the server stops.
func (s *Server) keepTime(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-s.alarm.C:
		}
		err := s.do(func(now time.Duration) { // do itself does what is due
			s.armed = never
			if held, _ := s.set.Busy(); held > 0 && s.store != nil && now >= s.saved+clockEvery {
				s.open.clock = true
			}
		})
		if err != nil {
			return
		}
	}
}
