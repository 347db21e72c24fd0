package proxyserver

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// serveTerms runs the only term of this server, or each term that it wins in the election.
// It returns when ctx ends or the server cannot go on; then the error, or that of the last
// term, says why. The caller must end the last term. The goroutines are in running, and
// end soon afterwards.
func (s *Server) serveTerms(ctx context.Context, running *sync.WaitGroup) error {
	if s.election == nil {
		s.runTerm(ctx, nil, running)
		return nil
	}
	for {
		err := s.leadOnce(ctx, running)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, store.ErrNotLeader):
			return err
		}
	}
}

// leadOnce waits until this server leads, and serves until it leads no longer.
func (s *Server) leadOnce(ctx context.Context, running *sync.WaitGroup) error {
	standby := s.term
	gaining, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() {
		select {
		case <-standby.failed: // a call panicked
			cancel()
		case <-gaining.Done():
		}
	})
	lead, err := s.election.Gain(gaining)
	if err != nil {
		return cmp.Or(standby.failure(), err)
	}
	if err := s.startTerm(lead); err != nil {
		if errors.Is(err, store.ErrNotLeader) { // the server stands by, and nobody else says why
			s.handler.log.Warn("this server was elected, and cannot begin to lead", "error", err)
		}
		return errors.Join(err, lead.Close())
	}
	s.lead = lead
	t := s.term
	s.handler.log.Info("this server leads", "url", s.election.Leader().URL)
	s.runTerm(ctx, lead.Over(), running)
	if ctx.Err() != nil {
		return nil // answers are being written; the lead is given up after them
	}
	if err := lead.Holds(); err != nil {
		t.loseLead(err)
	}
	if err := t.failure(); errors.Is(err, store.ErrNotLeader) {
		s.handler.log.Warn("this server leads no longer", "error", err)
	}
	s.setTerm(standbyTerm(s.terms))
	t.end() // returns the same error as t.failure
	return errors.Join(t.failure(), lead.Close())
}

// runTerm runs the background work of the term until ctx ends, the lead is over, or the
// term fails.
func (s *Server) runTerm(ctx context.Context, over <-chan struct{}, running *sync.WaitGroup) {
	t, stop := s.term, make(chan struct{})
	defer close(stop)
	running.Go(func() { t.keepTime(stop) })
	running.Go(func() { t.watchStore(stop) })
	running.Go(func() { t.past.Watch(stop, t.failed, t.totals) })
	select {
	case <-ctx.Done():
	case <-over:
	case <-t.failed:
	}
}

// endTerm ends the last term. If another server leads, that is no failure of this one.
func (s *Server) endTerm() error {
	err := s.term.end()
	if s.election != nil && errors.Is(err, store.ErrNotLeader) {
		return nil
	}
	return err
}
