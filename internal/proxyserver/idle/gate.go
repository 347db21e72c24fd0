package idle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// lookFor is how long a gate listens after the server was hidden: long enough for
// a connect that found the socket just before to reach the accept queue.
const lookFor = 100 * time.Millisecond

// gate is a listener that can be asked whether a client waits in its accept queue.
// Only the goroutine that calls Accept can know that without a race. So look asks that
// goroutine, which then waits for decide before it goes on.
type gate struct {
	net.Listener
	deadline  interface{ SetDeadline(time.Time) error }
	connected func() // is called for each connection before Accept returns it

	looks chan look // holds one: the question to Accept
	asked look      // the last question; only the caller of look uses it
}

// look is a question to Accept.
type look struct {
	done chan struct{} // is closed when a waiting client is counted, or no client waits
	stop chan bool     // holds one: what the asker decided
}

// newGate returns the gate before accepts, which is l, or wraps it.
func newGate(l, accepts net.Listener, connected func()) (*gate, error) {
	deadline, ok := l.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return nil, fmt.Errorf("stop when idle: listener %v (%T) has no deadlines", l.Addr(), l)
	}
	return &gate{Listener: accepts, deadline: deadline, connected: connected, looks: make(chan look, 1)}, nil
}

// look blocks until Accept has found a client, or that no client waits, or ctx is done.
// The caller then calls decide.
func (g *gate) look(ctx context.Context) {
	g.asked = look{done: make(chan struct{}), stop: make(chan bool, 1)}
	g.looks <- g.asked
	g.deadline.SetDeadline(time.Now()) // wakes Accept
	select {
	case <-g.asked.done:
	case <-ctx.Done():
	}
}

// decide makes Accept go on, or fail for good.
func (g *gate) decide(stop bool) { g.asked.stop <- stop }

// Accept implements [net.Listener].
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err == nil {
			g.connected()
			return c, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
		if c, err := g.answer(<-g.looks); c != nil || err != nil {
			return c, err
		}
	}
}

// answer looks into the accept queue and returns the client that waited there. If no client
// did, it blocks until the asker decides, and returns an error to stop, else nothing.
func (g *gate) answer(q look) (net.Conn, error) {
	c, err := g.find()
	g.deadline.SetDeadline(time.Time{})
	switch {
	case err == nil:
		g.connected()
		close(q.done)
		return c, nil
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	}
	close(q.done)
	if <-q.stop {
		return nil, http.ErrServerClosed
	}
	return nil, nil
}

// find returns the client that waits in the accept queue. While it cannot be accepted, as
// when too many files are open, find tries again: the asker must not take the error for an
// empty queue, and if net/http got the error, the asker would wait on.
func (g *gate) find() (net.Conn, error) {
	for {
		// A past deadline fails Accept without a look at the queue. With a future
		// deadline Accept looks first.
		g.deadline.SetDeadline(time.Now().Add(lookFor))
		c, err := g.Listener.Accept()
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return c, err
		}
		time.Sleep(lookFor)
	}
}
