package connlimit

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

const (
	// freeHead is how much is read of each connection before its request is admitted, in any case: a TLS
	// handshake and nearly every head.
	freeHead = 4 << 10
	// mostHeads is how much more is read of all such connections together. A head of many short lines takes
	// sixteen times its size in memory.
	mostHeads = 4 << 20
)

// errHeads ends a connection whose head is long while too many are.
var errHeads = errors.New("the heads of the requests under way are too long")

// Heads returns l with connections of which a [Limit] counts what is read. It goes below a listener with TLS,
// and leaves the connections of such a listener as they are.
func Heads(l net.Listener) net.Listener { return headListener{l} }

type headListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l headListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if _, secure := c.(*tls.Conn); secure {
		return c, nil
	}
	return &headConn{Conn: c}, nil
}

// headConn is a connection that counts what is read of it until its request is admitted.
type headConn struct {
	net.Conn

	mu       sync.Mutex
	budget   *atomic.Int64 // what all connections read beyond freeHead; nil: not counted
	read     int
	admitted bool
}

// headOf returns the headConn of c; nil if it has none.
func headOf(c net.Conn) *headConn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	head, _ := c.(*headConn)
	return head
}

// Read implements [net.Conn].
func (c *headConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.count(n) {
		return 0, errHeads
	}
	return n, err
}

// CloseWrite closes the sending side, as net/http does before it closes a connection.
func (c *headConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// count notes that n more bytes were read. It returns false if that is too much.
func (c *headConn) count(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.budget == nil || c.admitted {
		return true
	}
	before := max(0, c.read-freeHead)
	c.read += n
	more := int64(max(0, c.read-freeHead) - before)
	return more == 0 || c.budget.Add(more) <= mostHeads
}

// begin counts anew, from the head of the next request. It does nothing to nil.
func (c *headConn) begin(admitted bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if more := max(0, c.read-freeHead); more > 0 && c.budget != nil {
		c.budget.Add(-int64(more))
	}
	c.read, c.admitted = 0, admitted
}
