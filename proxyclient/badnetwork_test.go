package proxyclient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A badNetwork is inside the process, and disturbs bytes on their way at random. Both directions of a
// connection are disturbed on their own.
type badNetwork struct {
	accepted chan net.Conn
	closed   chan struct{}
	work     sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	bad    int // how many of a hundred dials and of a hundred reads are disturbed
	did    map[disturbance]int
	dials  int
	story  []string // what went over the network, for people
}

// disturbance is what happens to bytes on their way.
type disturbance string

const (
	undisturbed disturbance = ""
	dialRefusal disturbance = "connection refused"
	dialSilent  disturbance = "no answer to a dial"
	cutBefore   disturbance = "cut before"
	cutInside   disturbance = "cut inside"
	cutAfter    disturbance = "cut after"
	delayed     disturbance = "late"
	lostForGood disturbance = "lost, as all that follows"
	copied      disturbance = "a copy of the request on another connection"
)

var disturbances = []disturbance{cutBefore, cutInside, cutAfter, delayed, lostForGood, copied}

// longestDelay is how late bytes may be: some calls give up before that.
const longestDelay = 40 * time.Second

func newBadNetwork(random *rand.Rand) *badNetwork {
	return &badNetwork{accepted: make(chan net.Conn), closed: make(chan struct{}), random: random, bad: 5 + random.IntN(35), did: make(map[disturbance]int)}
}

// Accept implements [net.Listener].
func (n *badNetwork) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (n *badNetwork) Close() error {
	close(n.closed)
	return nil
}

// Addr implements [net.Listener].
func (n *badNetwork) Addr() net.Addr { return &net.UnixAddr{Name: "bad", Net: "unix"} }

// tell adds a line to the story.
func (n *badNetwork) tell(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.story = append(n.story, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (n *badNetwork) draw(limit int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.IntN(limit)
}

func (n *badNetwork) delay() time.Duration {
	most := longestDelay
	if n.draw(2) == 0 {
		most = time.Second
	}
	return time.Duration(n.draw(int(most)))
}

// disturb returns one of what may happen, or most often nothing.
func (n *badNetwork) disturb(what ...disturbance) disturbance {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.random.IntN(100) >= n.bad {
		return undisturbed
	}
	d := what[n.random.IntN(len(what))]
	n.did[d]++
	return d
}

// calm ends the disturbances.
func (n *badNetwork) calm() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bad = 0
}

// direct connects to the server without disturbances.
func (n *badNetwork) direct(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.accepted <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// dial connects to the server through the network.
func (n *badNetwork) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := n.disturb(dialRefusal, dialSilent)
	n.mu.Lock()
	n.dials++
	number := n.dials
	n.mu.Unlock()
	n.tell("%d to %s %s", number, addr, d)
	switch d {
	case dialRefusal:
		return nil, &net.OpError{Op: "dial", Net: "bad", Err: syscall.ECONNREFUSED}
	case dialSilent:
		if err := Sleep(ctx, dialTime); err != nil {
			return nil, &net.OpError{Op: "dial", Net: "bad", Err: err}
		}
		return nil, &net.OpError{Op: "dial", Net: "bad", Err: syscall.ETIMEDOUT}
	}
	up, err := n.direct(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, down := net.Pipe()
	n.work.Go(func() { n.pass(down, up, number, true) })
	n.work.Go(func() { n.pass(up, down, number, false) })
	return client, nil
}

// pass forwards what one end sends to the other, until an end closes the connection.
func (n *badNetwork) pass(from, to net.Conn, number int, requests bool) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		size, err := from.Read(buf)
		if err != nil {
			return
		}
		b := slices.Clone(buf[:size])
		kinds, arrow := disturbances, ">"
		if !requests {
			kinds, arrow = kinds[:len(kinds)-1], "<"
		}
		d := n.disturb(kinds...)
		n.tell("%d %s %s %q", number, arrow, d, b)
		out, end := b, false
		switch d {
		case cutBefore:
			return
		case cutInside:
			out, end = out[:n.draw(len(out))], true
		case cutAfter:
			end = true
		case delayed:
			time.Sleep(n.delay())
		case lostForGood:
			for err == nil {
				_, err = from.Read(buf)
			}
			return
		case copied:
			n.work.Go(func() { n.copy(b, n.delay()) })
		}
		if _, err := to.Write(out); err != nil || end {
			return
		}
	}
}

// copy delivers a request once more, and hears no answer.
func (n *badNetwork) copy(request []byte, after time.Duration) {
	time.Sleep(after)
	n.tell("a copy of %q", request)
	c, err := n.direct(context.Background(), "", "")
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(n.delay()))
	c.Write(request)
	for buf := make([]byte, 1<<10); err == nil; {
		_, err = c.Read(buf)
	}
}

// client returns a client for urls, all of which lead to the server by dial.
func (n *badNetwork) client(t *testing.T, urls string, dial dialFunc) *Client {
	t.Helper()
	c, err := New(Options{URL: urls})
	if err != nil {
		t.Fatal(err)
	}
	c.transport.Proxy = nil
	c.transport.DialContext = tracked(dial)
	return c
}
