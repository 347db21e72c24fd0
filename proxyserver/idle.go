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
		empty := true
		for _, g := range gates {
			empty = g.probe(ctx) && empty
		}
		// A connection may have come and gone since: then it is not idle either.
		empty = empty && s.idleFor() <= 0
		if empty {
			stop()
		} else {
			unhide()
			s.idle.Reset(s.opts.Idle.After)
		}
		for _, g := range gates {
			g.verdict(empty)
		}
	}
}

// gate is a listener that can tell that nobody waits in its accept queue. Only
// the goroutine that calls Accept can know that without a race.
type gate struct {
	net.Listener
	deadline interface{ SetDeadline(time.Time) error }
	server   *Server

	mu    sync.Mutex
	asked *question
}

// question is whether somebody is there, and then whether to go on.
type question struct {
	empty chan bool // holds one
	close chan bool // holds one
}

func (s *Server) newGate(l net.Listener) (*gate, error) {
	deadline, ok := l.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return nil, fmt.Errorf("stop when idle: listener %v (%T) has no deadlines", l.Addr(), l)
	}
	return &gate{Listener: l, deadline: deadline, server: s}, nil
}

// probe reports whether the accept queue is empty. After it Accept stands still
// until verdict, unless it returned a connection.
func (g *gate) probe(ctx context.Context) (empty bool) {
	q := &question{empty: make(chan bool, 1), close: make(chan bool, 1)}
	g.mu.Lock()
	g.asked = q
	g.mu.Unlock()
	g.deadline.SetDeadline(time.Now()) // wakes Accept
	select {
	case empty := <-q.empty:
		return empty
	case <-ctx.Done():
		return false
	}
}

func (g *gate) verdict(stop bool) {
	g.mu.Lock()
	q := g.asked
	g.asked = nil
	g.mu.Unlock()
	q.close <- stop
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
				answerOnce(q.empty, false)
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
			answerOnce(q.empty, true)
			if <-q.close {
				return nil, http.ErrServerClosed
			}
			g.deadline.SetDeadline(time.Time{})
		}
	}
}

// answerOnce answers a question that may have been answered before.
func answerOnce(to chan bool, empty bool) {
	select {
	case to <- empty:
	default:
	}
}
