package proxyserver

import (
	"container/list"
	"net"
	"net/http"
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

	mu   sync.Mutex
	open map[net.Conn]*list.Element // nil: it has a request
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
	at, open := c.open[conn]
	if !open {
		return // it was closed for another one
	}
	switch state {
	case http.StateActive, http.StateIdle:
		if at != nil {
			c.idle.Remove(at)
			at = nil
		}
		if state == http.StateIdle {
			at = c.idle.PushBack(conn)
		}
		c.open[conn] = at
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
}

func (c *connections) forget(conn net.Conn) {
	if at := c.open[conn]; at != nil {
		c.idle.Remove(at)
	}
	delete(c.open, conn)
}

// limited is a listener whose connections are counted.
type limited struct {
	net.Listener
	connections *connections
}

// Accept implements [net.Listener].
func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
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
