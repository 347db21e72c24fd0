package idle

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lateListener has a connection in its queue that came at the moment of the deadline: the
// Accept that the deadline wakes does not return the connection. As in package net, an Accept
// that begins after its deadline does not look into the queue either.
type lateListener struct {
	net.Listener
	mu       sync.Mutex
	deadline time.Time
	past     chan struct{} // closed by a deadline in the past
	conn     net.Conn
	awake    bool
	failures int // how often Accept fails before it returns the connection
}

func (l *lateListener) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	if !t.IsZero() && !t.After(time.Now()) {
		close(l.past)
	}
	return nil
}

func (l *lateListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	awake := l.awake
	l.awake = true
	over := !l.deadline.IsZero() && !l.deadline.After(time.Now())
	fails := awake && !over && l.failures > 0
	if fails {
		l.failures--
	}
	l.mu.Unlock()
	if !awake {
		<-l.past
		return nil, os.ErrDeadlineExceeded
	}
	if over {
		return nil, os.ErrDeadlineExceeded
	}
	if fails {
		return nil, &net.OpError{Op: "accept", Err: syscall.ENFILE}
	}
	return l.conn, nil
}

func TestConnectionAtTheDeadline(t *testing.T) {
	for _, failures := range []int{0, 2} { // as when too many files are open for a moment
		t.Run(fmt.Sprint(failures), func(t *testing.T) { connectionAtTheDeadline(t, failures) })
	}
}

func connectionAtTheDeadline(t *testing.T, failures int) {
	server, client := net.Pipe()
	defer client.Close()
	l := &lateListener{past: make(chan struct{}), conn: server, failures: failures}
	hidden, back := false, make(chan struct{})
	w := New(time.Millisecond, func() (func(), error) {
		hidden = true
		return func() { close(back) }, nil
	})
	counted, err := w.Listener(l, l)
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := counted.Accept()
		if err != nil {
			t.Error(err)
			giveUp() // nobody answers a look now
		}
		accepted <- c
	}()
	w.SetBusy(0)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if w.Wait(ctx, slog.New(slog.DiscardHandler)) {
			t.Error("there is a connection, and the server is idle")
		}
	})
	if <-accepted != server {
		t.Error("the connection was not returned")
	}
	select {
	case <-back:
	case <-ctx.Done():
	}
	giveUp()
	waiting.Wait()
	if !hidden {
		t.Error("the server did not hide")
	}
}
