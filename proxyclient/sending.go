package proxyclient

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
)

// trackedConn remembers whether anything was written on the connection since the current
// request got it.
type trackedConn struct {
	net.Conn
	wrote atomic.Bool
}

func (c *trackedConn) Write(p []byte) (int, error) {
	// Set wrote first: a write that is under way when the request fails counts, too.
	before := c.wrote.Swap(true)
	n, err := c.Conn.Write(p)
	if n == 0 && err != nil && !before {
		c.wrote.Store(false)
	}
	return n, err
}

// dialFunc is the type of [net/http.Transport.DialContext].
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// tracked wraps the connections of dial in a [trackedConn].
func tracked(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &trackedConn{Conn: c}, nil
	}
}

// sending follows one attempt at a time, by its connection. Without a connection (the
// dial, the TLS handshake or a proxy's CONNECT failed) nothing of the request has left.
// http.Transport returns an error only after its writer has ended, so the record of the
// connection is final by that time.
type sending struct {
	conn net.Conn
}

// trace returns the hooks of a call.
func (s *sending) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			s.conn = info.Conn
			if c := s.tracked(); c != nil {
				c.wrote.Store(false)
			}
		},
	}
}

// begin forgets the previous attempt.
func (s *sending) begin() { s.conn = nil }

// close closes the connection of the attempt, if there is one.
func (s *sending) close() {
	if s.conn != nil {
		s.conn.Close()
	}
}

// verified reports whether the attempt had a connection to a server whose certificate was verified.
func (s *sending) verified() bool {
	_, secure := s.conn.(*tls.Conn)
	return secure
}

// sent reports whether a byte of the request can have left.
func (s *sending) sent() bool {
	if s.conn == nil {
		return false
	}
	c := s.tracked()
	return c == nil || c.wrote.Load()
}

// tracked returns the tracked connection of the attempt, which may be below TLS, or nil
// if there is no such connection.
func (s *sending) tracked() *trackedConn {
	for c := s.conn; c != nil; {
		if t, ok := c.(*trackedConn); ok {
			return t
		}
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = inner.NetConn()
	}
	return nil
}
