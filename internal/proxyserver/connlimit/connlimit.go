// Package connlimit bounds how many connections a server has, and keeps room for clients
// that end the wait of others.
//
// A connection is busy from when the server calls [Limit.Admit], since it knows who asks, until
// the answer. When there are too many connections, the one that has been quiet for longest is
// closed for a new one: it is not busy, and was accepted, or busy for the last time, before the
// others. So strangers and idle clients, however many, keep nobody out. Each has a moment in which
// it is not closed, so that a caller can say who it is while strangers storm: meanwhile new ones
// wait to be accepted. If all connections are busy, [Spare] more are accepted, and beyond these the
// newest is closed. The server asks [Limit.Crowded] before it lets a request wait on a spare
// connection.
//
// What is read of connections before their requests are admitted is bounded, too: see [Heads].
package connlimit

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// otherDescriptors is how many descriptors are left for other things: the store,
	// the files of the configuration, listeners, the spare connections, and connections
	// that are accepted before another one is closed for them.
	otherDescriptors = 32
	// moment is how long no connection is closed for another one after it was accepted, or busy
	// for the last time, if none is busy: a round trip of a TLS handshake. The more are busy, the shorter it
	// is, so that a server with most connections always accepts most in a moment.
	moment = 150 * time.Millisecond
	// least is how many connections there may be even if descriptors or memory are short.
	least = 8
	// bytesOfConnection is how much memory a connection of a caller takes at most: with TLS, the longest head,
	// and a call under way.
	bytesOfConnection = 80 << 10
	// mostStrangers is how many connections there are at most on which nobody was admitted yet, however many
	// descriptors there are; fewer if all of them could take more than a third of the memory limit. The one that
	// was accepted first is closed for a new one, but not within strangerMoment, in which many
	// clients that come at once can make their TLS handshakes; fewer are done with these sooner.
	mostStrangers  = 8192
	strangerMoment = time.Second
	// bytesOfStranger is how much memory such a connection takes at most: a TLS handshake, and then
	// header lines of a few bytes, for freeHead in all.
	bytesOfStranger = 96 << 10
)

// Spare is how many more connections there may be if all have a request under way. No
// request waits for long on the spare ones: they are for calls that end waits.
const Spare = otherDescriptors / 2

// Limit knows the connections that are open. [New] makes one. Its methods are safe for
// concurrent use.
type Limit struct {
	mu    sync.Mutex                 // guards what follows
	open  map[net.Conn]*list.Element // their elements of idle; nil: the connection is busy
	idle  *list.List                 // of quiet, the longest quiet first
	fresh *list.List                 // the connections of idle on which nobody was admitted yet, the oldest first
	isNew map[net.Conn]*list.Element // their elements of fresh
	stats Stats                      // except Open and Idle

	mostFresh int           // mostStrangers, or fewer
	grace     time.Duration // strangerMoment, or less

	heads heads // of connections without an admitted request

	room chan struct{} // holds a value after a connection was closed
}

// quiet is a connection that is not busy.
type quiet struct {
	net.Conn
	since time.Time // when it was accepted, or busy for the last time
}

// Stats counts connections.
type Stats struct {
	Most int // connections that may be open, without the spare ones
	Open int
	Idle int // open connections that are not busy

	ClosedIdle uint64 // so far: idle ones that were closed for new ones
	Refused    uint64 // so far: new ones that found no room
}

// New returns a limit of most connections; zero: as many as this process's limits of
// descriptors and of memory leave room for.
func New(most int) *Limit {
	memory := debug.SetMemoryLimit(-1)
	if most == 0 {
		most = int(min(int64(byDescriptors()), max(least, memory/bytesOfConnection)))
	}
	strangers := strangersWithin(memory)
	return &Limit{
		open: make(map[net.Conn]*list.Element), idle: list.New(), fresh: list.New(), isNew: make(map[net.Conn]*list.Element),
		stats: Stats{Most: most}, mostFresh: strangers, grace: max(strangerMoment*time.Duration(strangers)/mostStrangers, strangerMoment/4), room: make(chan struct{}, 1),
	}
}

// strangersWithin returns how many strangers a server with so many bytes of memory has at most.
func strangersWithin(memory int64) int {
	return int(min(mostStrangers, max(least, memory/3/bytesOfStranger)))
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

// Admit makes a connection busy until its present request is answered. It returns false if the
// connection was closed for another one: then nobody reads the answer.
func (c *Limit) Admit(conn net.Conn) bool {
	headOf(conn).begin(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	idle, known := c.open[conn]
	if idle != nil {
		c.idle.Remove(idle)
		c.open[conn] = nil
	}
	c.meet(conn)
	return known
}

// Answered makes a connection quiet that is closed after its present answer.
func (c *Limit) Answered(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle, known := c.open[conn]; known && idle == nil {
		c.open[conn] = c.idle.PushBack(quiet{conn, time.Now()})
	}
}

// ConnState notes when a connection is no longer busy or closed, as a hook of [http.Server].
func (c *Limit) ConnState(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateIdle:
		headOf(conn).begin(false)
	case http.StateClosed, http.StateHijacked:
		headOf(conn).begin(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	idle, known := c.open[conn]
	if !known {
		return // it was closed for another one
	}
	switch state {
	case http.StateIdle:
		if idle == nil { // else a stranger keeps its place, however much it asks
			c.open[conn] = c.idle.PushBack(quiet{conn, time.Now()})
		}
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
}

// Crowded reports whether so many connections are busy that no request should wait.
func (c *Limit) Crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)-c.idle.Len() > c.stats.Most
}

// Full reports whether there are as many connections as there may be.
func (c *Limit) Full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) >= c.stats.Most
}

// Most returns how many connections may be open, without the spare ones.
func (c *Limit) Most() int { return c.stats.Most }

// Stats returns the present counts.
func (c *Limit) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Open, stats.Idle = len(c.open), c.idle.Len()
	return stats
}

// accepted counts a new connection. It returns the connection to close, which may be conn;
// nil if there is room. It blocks for a moment at most.
func (c *Limit) accepted(conn net.Conn) (excess net.Conn) {
	for {
		excess, wait := c.tryAccept(conn)
		if wait <= 0 {
			return excess
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.room:
			timer.Stop()
		}
	}
}

// tryAccept is accepted, unless conn must wait first.
func (c *Limit) tryAccept(conn net.Conn) (excess net.Conn, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.stats.Most {
		if first := c.idle.Front(); first != nil {
			q := first.Value.(quiet)
			if wait = c.moment() - time.Since(q.since); wait > 0 {
				return nil, wait
			}
			excess = q.Conn
			c.forget(excess)
			c.stats.ClosedIdle++
		} else if len(c.open) >= c.stats.Most+Spare {
			c.stats.Refused++
			return conn, 0
		}
	}
	if first := c.fresh.Front(); first != nil && excess == nil && c.fresh.Len() >= c.mostFresh {
		q := first.Value.(quiet)
		if wait = c.grace - time.Since(q.since); wait > 0 {
			return nil, wait
		}
		excess = q.Conn
		c.forget(excess)
		c.stats.ClosedIdle++
	}
	now := quiet{conn, time.Now()}
	c.open[conn], c.isNew[conn] = c.idle.PushBack(now), c.fresh.PushBack(now)
	return excess, 0
}

// meet makes conn one that is no stranger's, or is closed. The caller holds c.mu.
func (c *Limit) meet(conn net.Conn) {
	if stranger := c.isNew[conn]; stranger != nil {
		c.fresh.Remove(stranger)
		delete(c.isNew, conn)
	}
}

// moment returns how long a quiet connection is not closed. The caller holds c.mu.
func (c *Limit) moment() time.Duration {
	return moment * time.Duration(min(c.idle.Len(), c.stats.Most)) / time.Duration(c.stats.Most)
}

// forget removes a connection that is closed. The caller holds c.mu.
func (c *Limit) forget(conn net.Conn) {
	if idle := c.open[conn]; idle != nil {
		c.idle.Remove(idle)
	}
	delete(c.open, conn)
	c.meet(conn)
	select {
	case c.room <- struct{}{}:
	default: // the one who waits looks anyway
	}
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
		if head := headOf(conn); head != nil {
			head.heads = &l.limit.heads
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
