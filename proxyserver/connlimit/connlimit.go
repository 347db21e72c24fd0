// Package connlimit bounds how many connections a server has, and keeps room for clients
// that end the wait of others.
//
// When there are too many connections, the one that has been without a request for longest
// is closed for a new one. So idle clients, however many, keep nobody out. If all
// connections have a request, [Spare] more are accepted, and beyond these the newest is
// closed. The server asks [Limit.Crowded] before it lets a request wait on a spare
// connection.
package connlimit

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
)

const (
	// otherDescriptors is how many descriptors are left for other things: the store,
	// the files of the configuration, listeners, the spare connections, and connections
	// that are accepted before another one is closed for them.
	otherDescriptors = 32
	// least is how many connections there may be even if descriptors are short.
	least = 8
)

// Spare is how many more connections there may be if all have a request under way. No
// request waits for long on the spare ones: they are for calls that end waits.
const Spare = otherDescriptors / 2

// Limit knows the connections that are open. [New] makes one. Its methods are safe for
// concurrent use.
type Limit struct {
	mu    sync.Mutex                 // guards what follows
	open  map[net.Conn]*list.Element // their elements of idle; nil: a request is under way
	idle  *list.List                 // of net.Conn, the longest idle first
	stats Stats                      // except Open and Idle
}

// Stats counts connections.
type Stats struct {
	Most int // connections that may be open, without the spare ones
	Open int
	Idle int // open connections without a request

	ClosedIdle uint64 // so far: idle ones that were closed for new ones
	Refused    uint64 // so far: new ones that found no room
}

// New returns a limit of most connections; zero: as many as this process's limit of
// descriptors leaves room for.
func New(most int) *Limit {
	if most == 0 {
		most = byDescriptors()
	}
	return &Limit{open: make(map[net.Conn]*list.Element), idle: list.New(), stats: Stats{Most: most}}
}

func byDescriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		limit.Cur = 256 // the lowest default of any system that we know
	}
	return max(least, int(min(limit.Cur, 1<<20))-otherDescriptors)
}

// Listener returns l as a listener whose connections count. If a connection cannot be
// accepted at present, the error of its Accept is temporary: [http.Server] tries again.
func (c *Limit) Listener(l net.Listener) net.Listener { return listener{l, c} }

// ConnState notes whether a connection has a request, as a hook of [http.Server].
func (c *Limit) ConnState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle, known := c.open[conn]
	if !known {
		return // it was closed for another one
	}
	switch state {
	case http.StateActive:
		if idle != nil {
			c.idle.Remove(idle)
			c.open[conn] = nil
		}
	case http.StateIdle:
		if idle == nil {
			c.open[conn] = c.idle.PushBack(conn)
		}
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
}

// Crowded reports whether there are so many connections that no request should wait.
func (c *Limit) Crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) > c.stats.Most
}

// Stats returns the present counts.
func (c *Limit) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Open, stats.Idle = len(c.open), c.idle.Len()
	return stats
}

// accepted counts a new connection. It returns the connection to close, which may be conn;
// nil if there is room.
func (c *Limit) accepted(conn net.Conn) (excess net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.stats.Most {
		if first := c.idle.Front(); first != nil {
			excess = first.Value.(net.Conn)
			c.forget(excess)
			c.stats.ClosedIdle++
		} else if len(c.open) >= c.stats.Most+Spare {
			excess = conn
			c.stats.Refused++
		}
	}
	if excess != conn {
		c.open[conn] = c.idle.PushBack(conn)
	}
	return excess
}

// forget removes a connection that is closed. The caller holds c.mu.
func (c *Limit) forget(conn net.Conn) {
	if idle := c.open[conn]; idle != nil {
		c.idle.Remove(idle)
	}
	delete(c.open, conn)
}

// listener is a listener whose connections count.
type listener struct {
	net.Listener
	limit *Limit
}

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, passing(err)
		}
		excess := l.limit.accepted(conn)
		if excess != nil {
			abort(excess)
		}
		if excess != conn {
			return conn, nil
		}
	}
}

// abort closes conn at once. [tls.Conn.Close] would wait 5 s for a client that does not read.
func abort(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

// passingErrors are errors of an accept that end sooner or later, beside those that package
// net takes for temporary: see accept(2) and epoll_ctl(2). On Linux an accept also returns
// network errors of the new connection.
var passingErrors = []error{
	syscall.ENOMEM, syscall.ENOBUFS, syscall.ENOSPC, syscall.EPERM,
	syscall.ENETDOWN, syscall.EPROTO, syscall.ENOPROTOOPT, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
	syscall.EOPNOTSUPP, syscall.ENETUNREACH,
}

// passing returns err, the error of an accept. If it is one of passingErrors, passing makes
// it temporary: then [http.Server] soon accepts again.
func passing(err error) error {
	if slices.ContainsFunc(passingErrors, func(passes error) bool { return errors.Is(err, passes) }) {
		return passingError{err}
	}
	return err
}

// passingError is a [net.Error] that is temporary.
type passingError struct{ error }

func (e passingError) Unwrap() error { return e.error }
func (passingError) Timeout() bool   { return false }
func (passingError) Temporary() bool { return true }
