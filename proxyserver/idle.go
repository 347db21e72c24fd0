package proxyserver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Idle makes a server stop by itself when nobody needs it. A client that connects
// at that moment is not lost: the server finds it and goes on.
type Idle struct {
	// After is how long there must have been no lease, waiter or connection.
	After time.Duration

	// Hide makes sure that no new connection can find the server's sockets,
	// and returns the way to undo that. A client that does not find them waits
	// until Serve has returned, and starts a server of its own: so Hide takes
	// the lock that starters hold, which its caller gives back after Serve. After
	// an error, which is logged, the server goes on.
	Hide func() (unhide func(), err error)
}

// idleness knows since when nobody needs the server.
type idleness struct {
	after time.Duration
	timer *time.Timer // fires when the server may have been idle for long enough

	mu    sync.Mutex // guards what follows, and that timer and since fit together
	busy  int        // leases and waiters
	conns int        // open connections
	since time.Time  // when the last of them went; zero: there are some
}

// newIdleness returns one that counts from the first [idleness.setBusy] on.
func newIdleness(after time.Duration) *idleness {
	return &idleness{after: after, timer: time.NewTimer(after)}
}

// setBusy notes how many leases and waiters there are.
func (i *idleness) setBusy(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.busy = n
	i.update()
}

// connected counts connections from the moment they are accepted.
func (i *idleness) connected() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conns++
	i.update()
}

// connState counts connections that end. It does not count those that begin:
// net/http knows a connection only after Accept has returned it.
func (i *idleness) connState(_ net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conns--
	i.update()
}

// update notes since when nobody needs the server. The caller holds i.mu.
func (i *idleness) update() {
	switch {
	case i.busy+i.conns > 0:
		i.since = time.Time{}
	case i.since.IsZero():
		i.since = time.Now()
		i.timer.Reset(i.after)
	}
}

// left returns how much longer the server must be idle; never if it is not.
func (i *idleness) left() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.since.IsZero() {
		return never
	}
	return i.after - time.Since(i.since)
}

// wait blocks until the server has been idle for long enough; false: ctx is done.
func (i *idleness) wait(ctx context.Context) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-i.timer.C:
		}
		switch left := i.left(); {
		case left <= 0:
			return true
		case left < never:
			i.timer.Reset(left)
		}
		// If the server is needed, update sets the timer when it is not.
	}
}

// tryAgain makes the next wait last for the whole time.
func (i *idleness) tryAgain() { i.timer.Reset(i.after) }
