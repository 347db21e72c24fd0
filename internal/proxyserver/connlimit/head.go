package connlimit

import (
	"container/list"
	"crypto/tls"
	"net"
	"sync"
)

const (
	// freeHead is how much is read of each connection before its request is admitted, in any case: a TLS
	// handshake and nearly every head.
	freeHead = 4 << 10
	// mostHeads is how much more of all such connections is kept. A head of many short lines takes
	// sixteen times its size in memory.
	mostHeads = 4 << 20
)

// heads are the connections of whose heads more than freeHead was read.
type heads struct {
	mu    sync.Mutex
	bytes int       // that were read beyond freeHead of each
	long  list.List // of *headConn, the one that is long for longest first
}

// add counts n more bytes of c. If there are too many, it closes the connection whose head is long for longest, maybe c: so
// who sends heads and does not end them keeps nobody out.
func (h *heads) add(c *headConn, n int) {
	h.mu.Lock()
	if c.long == nil {
		c.long = h.long.PushBack(c)
	}
	c.beyond += n
	h.bytes += n
	var excess []*headConn
	for h.bytes > mostHeads {
		first := h.long.Front().Value.(*headConn)
		h.remove(first)
		excess = append(excess, first)
	}
	h.mu.Unlock()
	for _, c := range excess {
		c.Conn.Close()
	}
}

// remove forgets c. The caller holds h.mu.
func (h *heads) remove(c *headConn) {
	if c.long == nil {
		return
	}
	h.bytes -= c.beyond
	h.long.Remove(c.long)
	c.long, c.beyond = nil, 0
}

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
	heads    *heads // nil: not counted
	read     int
	admitted bool

	long   *list.Element // of heads.long, whose mutex guards this and beyond; nil: it is not there
	beyond int
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
	c.count(n)
	return n, err
}

// CloseWrite closes the sending side, as net/http does before it closes a connection.
func (c *headConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// count notes that n more bytes were read.
func (c *headConn) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heads == nil || c.admitted {
		return
	}
	before := max(0, c.read-freeHead)
	c.read += n
	if more := max(0, c.read-freeHead) - before; more > 0 {
		c.heads.add(c, more)
	}
}

// begin counts anew, from the head of the next request. It does nothing to nil.
func (c *headConn) begin(admitted bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read > freeHead && c.heads != nil {
		c.heads.mu.Lock()
		c.heads.remove(c)
		c.heads.mu.Unlock()
	}
	c.read, c.admitted = 0, admitted
}
