package proxyserver

import (
	"container/list"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
)

const (
	// otherDescriptors is how many descriptors are left for other things than
	// connections: the store, the files of the configuration, listeners, and
	// connections that are accepted before another one is closed for them.
	otherDescriptors = 32
	// leastConnections is how many there may be even if descriptors are short.
	leastConnections = 8
)

// mostConnections returns how many connections the limit of descriptors leaves
// room for.
func mostConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		limit.Cur = 256 // the lowest default of any system that we know
	}
	return max(leastConnections, int(min(limit.Cur, 1<<20))-otherDescriptors)
}

// spareConnections is how many more there may be if all have a request under way.
// On these nobody waits for long: they are for calls that end waits.
const spareConnections = otherDescriptors / 2

// connections are those that are open. When there are too many, the one is closed
// that has been without a request for longest. So many idle clients keep nobody
// out. If all have a request under way, a few more are accepted, and beyond these
// the newest is closed.
type connections struct {
	most int

	mu   sync.Mutex                 // guards what follows
	open map[net.Conn]*list.Element // in idle; nil: it has a request
	idle *list.List                 // of net.Conn, that which is idle for longest first

	closedIdle, refused uint64 // idle ones closed for others; new ones for which there was no room
}

func newConnections(most int) *connections {
	return &connections{most: most, open: make(map[net.Conn]*list.Element), idle: list.New()}
}

// accepted counts a new connection. It returns the one to close for it; nil if
// there is room.
func (c *connections) accepted(conn net.Conn) (excess net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.most {
		if first := c.idle.Front(); first != nil {
			excess = first.Value.(net.Conn)
			c.forget(excess)
			c.closedIdle++
		} else if len(c.open) >= c.most+spareConnections {
			excess = conn
			c.refused++
		}
	}
	if excess != conn {
		c.open[conn] = c.idle.PushBack(conn)
	}
	return excess
}

// crowded reports whether there are so many that nobody else should wait.
func (c *connections) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) > c.most
}

// state notes whether a connection has a request.
func (c *connections) state(conn net.Conn, state http.ConnState) {
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

// forget lets go of one that is closed. The caller holds c.mu.
func (c *connections) forget(conn net.Conn) {
	if idle := c.open[conn]; idle != nil {
		c.idle.Remove(idle)
	}
	delete(c.open, conn)
}

// passingErrors are errors of an accept that are over sooner or later, beside those that
// net takes for temporary: see accept(2) and epoll_ctl(2). Linux passes on to accept what
// the network did to the connection.
var passingErrors = []error{
	syscall.ENOMEM, syscall.ENOBUFS, syscall.ENOSPC, syscall.EPERM,
	syscall.ENETDOWN, syscall.EPROTO, syscall.ENOPROTOOPT, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
	syscall.EOPNOTSUPP, syscall.ENETUNREACH,
}

// passing returns err, which an accept failed with, as one after which [http.Server]
// accepts again soon, if it is one that passes.
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

// limited is a listener whose connections are counted.
type limited struct {
	net.Listener
	connections *connections
}

// limit makes l a listener whose connections are counted.
func (c *connections) limit(l net.Listener) net.Listener { return limited{l, c} }

// Accept implements [net.Listener].
func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, passing(err)
		}
		excess := l.connections.accepted(conn)
		if excess != nil {
			excess.Close()
		}
		if excess != conn {
			return conn, nil
		}
	}
}
