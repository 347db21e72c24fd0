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

// How long a stop waits for answers that are being written.
const (
	drainTime    = 5 * time.Second        // far below the time between TERM and KILL anywhere
	handOverTime = 500 * time.Millisecond // of a server that shares its store: the next leader waits for it
)

// Serve answers on all listeners until ctx is done or the server is idle for
// long enough, and closes them. Then it grants nothing: a waiting acquire with a
// request id is answered 202, so that its client comes back with the id, one
// without is answered 503. Leases stay held. The clock is saved and the
// store closed. It returns nil after a clean stop, else what failed.
//
// A commit that fails, a store that is gone ([ErrStore]) and a call that panics
// end it, too: then it answers 503 to all who are there.
//
// It must be called once at most.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var gates []*gate
	for i, l := range listeners {
		listeners[i] = s.handler.connections.limit(l)
		if s.idle == nil {
			continue
		}
		g, err := newGate(l, listeners[i], s.idle.connected)
		if err != nil {
			return errors.Join(err, closeAll(listeners), s.Close())
		}
		listeners[i] = g
		gates = append(gates, g)
	}
	if s.store == nil && s.election == nil {
		s.handler.log.Warn("state is in memory only: a restart loses all leases")
	}

	var running sync.WaitGroup
	broken := make(chan error, len(listeners))
	running.Go(func() { s.handler.watchCertificate(ctx) })
	for _, l := range listeners {
		running.Go(func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				broken <- fmt.Errorf("serve on %v: %w", l.Addr(), err)
				cancel()
			}
		})
	}
	if s.idle != nil {
		running.Go(func() { s.stopWhenIdle(ctx, gates, cancel) })
	}

	failed := s.serveTerms(ctx, &running)
	cancel()
	s.term.halt()
	limit := drainTime
	if s.election != nil {
		limit = handOverTime
	}
	drain, done := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer done()
	if err := s.http.Shutdown(drain); err != nil {
		s.http.Close() // a client that has not read its answer by now does not get it
	}
	running.Wait()

	errs := []error{failed}
	close(broken)
	for err := range broken {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.endTerm(), s.Close())...)
}

// stopWhenIdle calls stop when the server has been idle for long enough, and
// nobody has come while it hid.
func (s *Server) stopWhenIdle(ctx context.Context, gates []*gate, stop func()) {
	for s.idle.wait(ctx) {
		unhide, err := s.hide()
		if err != nil {
			s.handler.log.Warn("the server is idle, and cannot stop", "error", err)
			s.idle.tryAgain()
			continue
		}
		for _, g := range gates {
			g.look(ctx)
		}
		// Clients that were found are counted by now, and so are leases that they
		// took, even if they have gone again.
		idle := s.idle.left() <= 0
		if idle {
			stop()
		} else {
			unhide()
			s.idle.tryAgain()
		}
		for _, g := range gates {
			g.decide(idle)
		}
	}
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
