package proxyserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Idle makes a server stop by itself when nobody needs it, and lose nobody who
// connects at that moment.
type Idle struct {
	// After is how long there must have been no lease, waiter or connection.
	After time.Duration

	// Hide makes sure that no new connection can find the server's sockets,
	// and returns the way to undo that. Whoever does not find them waits until
	// Serve has returned, and starts a server of his own: so Hide takes the
	// lock that starters hold, which its caller gives back after Serve. After
	// an error, which is logged, the server goes on.
	Hide func() (unhide func(), err error)
}

// lookFor is how long the server listens after it was hidden: a connect that
// found the socket just before is in the accept queue by then.
const lookFor = 100 * time.Millisecond

// noteIdle notes since when there is no lease, waiter or connection. It is
// called with s.mu held, after each change.
func (s *Server) noteIdle(now time.Duration) {
	if s.opts.Idle == nil {
		return
	}
	held, waiting := s.set.Busy()
	switch busy := held+waiting+s.conns > 0; {
	case busy:
		s.idleSince = -1
	case s.idleSince < 0:
		s.idleSince = now
		s.idle.Reset(s.opts.Idle.After)
	}
}

// idleFor returns how much longer the server must be idle; never if it is not.
func (s *Server) idleFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleSince < 0 {
		return never
	}
	return s.idleSince + s.opts.Idle.After - s.clock.now()
}

// connected counts connections from the moment they are accepted.
func (s *Server) connected(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns += n
	s.noteIdle(s.clock.now())
}

// connState counts those that end. They were counted when they were accepted:
// until net/http knows them, only Accept does.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	if s.opts.Idle != nil && (state == http.StateClosed || state == http.StateHijacked) {
		s.connected(-1)
	}
}

// watchIdle calls stop when the server has been idle for long enough.
func (s *Server) watchIdle(ctx context.Context, gates []*gate, stop func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.idle.C:
		}
		if left := s.idleFor(); left > 0 {
			if left < never {
				s.idle.Reset(left)
			}
			continue // noteIdle sets the timer when it gets idle
		}
		unhide, err := s.opts.Idle.Hide()
		if err != nil {
			s.log.Warn("the server is idle, and cannot stop", "error", err)
			s.idle.Reset(s.opts.Idle.After)
			continue
		}
		for _, g := range gates {
			g.look(ctx)
		}
		// Whoever was found is counted by now, and so is what he left if he
		// has gone again.
		idle := s.idleFor() <= 0
		if idle {
			stop()
		} else {
			unhide()
			s.idle.Reset(s.opts.Idle.After)
		}
		for _, g := range gates {
			g.verdict(idle)
		}
	}
}

// gate is a listener that can be asked to look whether anybody waits in its
// accept queue. Only the goroutine that calls Accept can know that without a
// race.
type gate struct {
	net.Listener
	deadline interface{ SetDeadline(time.Time) error }
	server   *Server

	mu    sync.Mutex
	asked *question
}

// question is asked of Accept.
type question struct {
	looked chan struct{} // holds one: whoever was there is counted
	stop   chan bool     // holds one: the verdict
}

func (s *Server) newGate(l net.Listener) (*gate, error) {
	deadline, ok := l.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return nil, fmt.Errorf("stop when idle: listener %v (%T) has no deadlines", l.Addr(), l)
	}
	return &gate{Listener: l, deadline: deadline, server: s}, nil
}

// look returns when Accept has found somebody or nobody, or ctx is done. If it
// was nobody Accept stands still until the verdict.
func (g *gate) look(ctx context.Context) {
	q := &question{looked: make(chan struct{}, 1), stop: make(chan bool, 1)}
	g.mu.Lock()
	g.asked = q
	g.mu.Unlock()
	g.deadline.SetDeadline(time.Now()) // wakes Accept
	select {
	case <-q.looked:
	case <-ctx.Done():
	}
}

func (g *gate) verdict(stop bool) {
	g.mu.Lock()
	q := g.asked
	g.asked = nil
	g.mu.Unlock()
	q.stop <- stop
}

func (g *gate) question() *question {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// Accept implements [net.Listener].
func (g *gate) Accept() (net.Conn, error) {
	var looking *question
	for {
		c, err := g.Listener.Accept()
		q := g.question()
		switch {
		case err == nil:
			g.server.connected(+1)
			if q != nil {
				g.deadline.SetDeadline(time.Time{})
				q.answer()
			}
			return c, nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, err
		case q == nil: // the verdict was to go on
			g.deadline.SetDeadline(time.Time{})
		case looking != q:
			// A deadline that is over fails Accept without a look at the
			// queue. One that is not makes it look first.
			looking = q
			g.deadline.SetDeadline(time.Now().Add(lookFor))
		default:
			q.answer()
			if <-q.stop {
				return nil, http.ErrServerClosed
			}
			g.deadline.SetDeadline(time.Time{})
		}
	}
}

// answer answers a question that may have been answered before.
func (q *question) answer() {
	select {
	case q.looked <- struct{}{}:
	default:
	}
}
