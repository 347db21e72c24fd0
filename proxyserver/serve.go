package proxyserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// drainTime is how long a stop waits for answers that are being written; far
// below the time between TERM and KILL anywhere.
const drainTime = 5 * time.Second

// Serve answers on all listeners until ctx is done or the server is idle for
// long enough, and closes them. Then it grants nothing any more: a waiting
// acquire with a request id is answered 202, so that its client comes back with
// it, one without is answered 503. Leases stay held. The clock is saved and the
// store closed. It returns nil after a clean stop, else what failed.
//
// It must be called once at most.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var gates []*gate
	if s.opts.Idle != nil {
		for i, l := range listeners {
			g, err := s.newGate(l)
			if err != nil {
				return errors.Join(err, closeAll(listeners), s.Close())
			}
			listeners[i] = g
			gates = append(gates, g)
		}
	}
	if s.store == nil {
		s.log.Warn("state is in memory only: a restart loses all leases")
	}

	var running sync.WaitGroup
	broken := make(chan error, len(listeners))
	running.Go(func() { s.keepTime(ctx.Done()) })
	for _, l := range listeners {
		running.Go(func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				broken <- fmt.Errorf("serve on %v: %w", l.Addr(), err)
				cancel()
			}
		})
	}
	if s.opts.Idle != nil {
		running.Go(func() { s.watchIdle(ctx, gates, cancel) })
	}

	<-ctx.Done()
	s.refuse()
	drain, done := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer done()
	if err := s.http.Shutdown(drain); err != nil {
		s.http.Close() // whoever has not read its answer by now does not get it
	}
	running.Wait()

	var errs []error
	close(broken)
	for err := range broken {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.finish())...)
}

// still is a time at which nothing is due any more. The pools of a server that
// is stopping are looked at then: nobody would hear of a grant.
const still = 0

// refuse makes every later call fail, and tells those who wait.
func (s *Server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		return // it failed before, and told them then
	}
	s.tellAll(func(id string) outcome {
		st, _ := s.set.Status(still, id)
		return outcome{err: errStopping, status: &st}
	})
	s.closed = errStopping
}

// finish commits what is left, with the clock, and closes the store.
func (s *Server) finish() error {
	s.leader <- struct{}{} // for good: nobody commits after this
	s.mu.Lock()
	last, err := s.open, s.closed
	s.finished = true
	s.mu.Unlock()
	s.commit()
	if errors.Is(err, errStopping) {
		err = last.err
	}
	return errors.Join(err, s.Close())
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
