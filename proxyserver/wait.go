package proxyserver

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// waiter is a queued request and the connections that wait with it.
type waiter struct {
	conns []*conn
	// until is when the wait is over, on the lease clock, by what the latest
	// connection said.
	until time.Duration
}

// conn is one connection that waits. It is in a waiter or has been told, never
// both, so it is told once.
type conn struct {
	told chan outcome // holds one
}

// outcome is what became of a waiter.
type outcome struct {
	leases []pool.Lease
	err    error
	took   time.Duration // with err: how long it waited
	status *pool.Status  // with errStopping and errSlice
}

func (t told) send() {
	for _, c := range t.conns {
		c.told <- t.outcome
	}
}

// The following are called with s.mu held.

// attach makes c wait with the request id.
func (s *Server) attach(id string, c *conn, until time.Duration) {
	w := s.waiting[id]
	if w == nil {
		w = &waiter{}
		s.waiting[id] = w
	}
	w.conns = append(w.conns, c)
	w.until = until
}

// waits reports whether c has not been told yet.
func (s *Server) waits(id string, c *conn) bool {
	w := s.waiting[id]
	return w != nil && slices.Contains(w.conns, c)
}

// detach ends the wait of c, which has not been told. The waiter stays until
// the pools grant or drop it.
func (s *Server) detach(now time.Duration, id string, c *conn, linger time.Duration) {
	w := s.waiting[id]
	w.conns = slices.DeleteFunc(w.conns, func(other *conn) bool { return other == c })
	s.set.Detach(now, id, linger)
}

// tell has the connections that wait with the request id told as soon as the
// open batch is durable.
func (s *Server) tell(id string, out outcome) {
	if w := s.waiting[id]; w != nil {
		delete(s.waiting, id)
		s.open.told = append(s.open.told, told{w.conns, out})
	}
}

// tellAll tells every connection that waits at once: nothing was decided that
// would have to be durable.
func (s *Server) tellAll(out func(id string) outcome) {
	for id, w := range s.waiting {
		told{w.conns, out(id)}.send()
	}
	clear(s.waiting)
}
