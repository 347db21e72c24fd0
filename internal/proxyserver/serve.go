package proxyserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/connlimit"
)

// How long a stop takes for what.
const (
	drainTime  = 5 * time.Second        // for answers to be written: far below the time between TERM and KILL anywhere
	settleTime = 500 * time.Millisecond // see [term.settle]: the next server waits for this one
	tellTime   = time.Second            // until those who wait are told, even if the store is not closed yet
)

// Serve answers on all listeners until ctx is done or the server has been idle for long
// enough, and closes them. Then it grants nothing more, saves the lease clock and closes the store.
// Leases stay held. A waiting acquire with a request id is answered 202, so that its client comes back
// with the id; an acquire without an id is answered 503. Serve returns nil after a clean stop, else
// what failed.
//
// A call that panics ends Serve, too. Without an Election, so does a failed commit or a
// store that is gone ([ErrStore]). Then it answers 503 to every client.
//
// Serve must be called at most once.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	listeners = slices.Clone(listeners) // not those of the caller
	for i, l := range listeners {
		listeners[i] = s.handler.connections.Listener(connlimit.Heads(l))
		if s.idle == nil {
			continue
		}
		counted, err := s.idle.Listener(l, listeners[i])
		if err != nil {
			return errors.Join(err, closeAll(listeners), s.Close())
		}
		listeners[i] = counted
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
		running.Go(func() {
			if s.idle.Wait(ctx, s.handler.log) {
				cancel()
			}
		})
	}

	failed := s.serveTerms(ctx, &running)
	cancel()
	s.term.halt()
	running.Go(s.drain)
	errs := []error{failed, s.handOver()}
	running.Wait()
	close(broken)
	for err := range broken {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// drain closes the listeners, and then each connection once its answer is written. A client that
// has not read its answer within drainTime loses it.
func (s *Server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// handOver ends the last term, closes the store, and then answers those who wait: they may be many
// thousands, and their answers change nothing that is stored. So the next server need not wait
// until they are written. If the store takes long they are answered meanwhile.
func (s *Server) handOver() error {
	closed := make(chan error, 1)
	go func() {
		s.term.settle()
		closed <- errors.Join(s.endTerm(), s.Close())
	}()
	timer := time.NewTimer(tellTime)
	defer timer.Stop()
	select {
	case err := <-closed:
		s.term.dismiss()
		return err
	case <-timer.C:
		s.term.dismiss()
		return <-closed
	}
}

// TLSListener returns l with TLS, as [tls.NewListener] does, for [Server.Serve]: the server bounds what it
// reads of connections whose callers it does not know.
func TLSListener(l net.Listener, config *tls.Config) net.Listener {
	return tls.NewListener(connlimit.Heads(l), config)
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
