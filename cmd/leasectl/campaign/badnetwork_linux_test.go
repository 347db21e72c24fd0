package campaign

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A badNetwork stands between clients and a server. It cuts answers at any byte, drops requests
// before or after the server has read them, delays them, and delivers some of them a second
// time, at once or late. It repeats the end of answers, too, at once or before the next answer.
type badNetwork struct {
	t   *testing.T
	to  string       // the server's socket
	bad atomic.Int64 // how many of a hundred requests are disturbed

	requests, disturbed atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
	open   map[net.Conn]bool
	work   sync.WaitGroup
}

// newBadNetwork listens on the socket from and forwards requests to the socket to.
func newBadNetwork(t *testing.T, from, to string, random *rand.Rand) *badNetwork {
	t.Helper()
	n := &badNetwork{t: t, to: to, random: random, open: make(map[net.Conn]bool)}
	l, err := net.Listen("unix", from)
	if err != nil {
		t.Fatal(err)
	}
	n.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.work.Go(func() { n.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		n.mu.Lock()
		for c := range n.open {
			c.Close()
		}
		n.mu.Unlock()
		n.work.Wait()
		os.Remove(from)
	})
	return n
}

// draw returns a number below limit.
func (n *badNetwork) draw(limit int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.IntN(limit)
}

// keep registers a connection, so that the end of the test closes it, until closing is called.
func (n *badNetwork) keep(c net.Conn) (closing func()) {
	n.mu.Lock()
	n.open[c] = true
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		delete(n.open, c)
		n.mu.Unlock()
		c.Close()
	}
}

func (n *badNetwork) serve(c net.Conn) {
	defer n.keep(c)()
	in := bufio.NewReader(c)
	var again []byte // goes before the next answer
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		request.ContentLength = int64(len(body))
		text, err := httputil.DumpRequest(request, true)
		if err != nil {
			n.t.Error(err)
			return
		}
		if !n.exchange(c, in, text, &again) {
			return
		}
	}
}

// fault is what goes wrong in an exchange.
type fault int

const (
	undisturbed fault = iota
	dropped           // before the server has read it
	unanswered
	cutAnswer
	late
	twice
	twiceLate
	answeredTwice
	answeredTwiceLate // before the next answer
	faultKinds
)

// exchange forwards a request and returns the answer to the client, after what is to be sent again.
// After false the connection must be closed.
func (n *badNetwork) exchange(c net.Conn, in *bufio.Reader, request []byte, again *[]byte) bool {
	what := undisturbed
	n.requests.Add(1)
	if int64(n.draw(100)) < n.bad.Load() {
		what = fault(1 + n.draw(int(faultKinds)-1))
		n.disturbed.Add(1)
	}
	switch what {
	case dropped:
		return false
	case late:
		time.Sleep(time.Duration(n.draw(1500)) * time.Millisecond)
	case twice:
		n.copy(request, 0)
	case twiceLate:
		n.copy(request, time.Duration(n.draw(3000))*time.Millisecond)
	}
	answer, ok := n.ask(c, in, request)
	switch {
	case !ok || what == unanswered:
		return false
	case what == cutAnswer:
		c.Write(answer[:n.draw(len(answer))])
		return false
	}
	_, err := c.Write(append(*again, answer...))
	*again = nil
	end := answer[n.draw(2)*n.draw(len(answer)):] // all of it, more often than not
	switch {
	case err != nil:
		return false
	case what == answeredTwice:
		c.Write(end)
	case what == answeredTwiceLate:
		*again = end
	}
	return true
}

// copy delivers a request once more, and discards the answer.
func (n *badNetwork) copy(request []byte, after time.Duration) {
	n.work.Go(func() {
		time.Sleep(after)
		up, err := net.Dial("unix", n.to)
		if err != nil {
			return
		}
		defer n.keep(up)()
		up.Write(request)
		up.SetReadDeadline(time.Now().Add(time.Duration(n.draw(2000)) * time.Millisecond))
		io.Copy(io.Discard, up)
	})
}

// ask forwards the request and reads the answer. If the client disconnects meanwhile, ask
// disconnects from the server.
func (n *badNetwork) ask(c net.Conn, in *bufio.Reader, request []byte) (answer []byte, ok bool) {
	up, err := net.Dial("unix", n.to)
	if err != nil {
		return nil, false
	}
	defer n.keep(up)()
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan struct{})
	go func() {
		defer close(left)
		if _, err := in.Peek(1); err != nil && ctx.Err() == nil {
			up.Close()
		}
	}()
	defer func() {
		cancel()
		c.SetReadDeadline(time.Now())
		<-left
		c.SetReadDeadline(time.Time{})
	}()
	if _, err := up.Write(request); err != nil {
		return nil, false
	}
	var got bytes.Buffer
	response, err := http.ReadResponse(bufio.NewReader(io.TeeReader(up, &got)), nil)
	if err != nil {
		return nil, false
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return nil, false
	}
	return got.Bytes(), true
}
