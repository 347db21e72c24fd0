package postgres

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// wire forwards connections from servers to PostgreSQL. A test can disturb it.
type wire struct {
	net.Listener
	to string

	mu    sync.Mutex
	rule  func(sent []byte) fate // for what a client sends; nil: everything passes
	heard func(answer []byte)    // changes what PostgreSQL answers; nil: nothing is changed
	ends  []net.Conn
}

// fate is what happens to the connection when a client has sent something.
type fate int

const (
	passes   fate = iota
	lost          // it does not arrive, and the connection hangs
	halved        // half of it arrives, and the connection hangs
	answered      // it arrives, and its answer breaks the connection
	silent        // it arrives, and its answer does not
)

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			w.mu.Lock()
			w.ends = append(w.ends, c, s)
			w.mu.Unlock()
			all.Go(func() { w.forward(c, s) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut()
		all.Wait()
	})
	return w
}

// cut closes all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.ends {
		c.Close()
	}
}

// disturb makes rule decide the fate of what clients send; nil: all passes.
func (w *wire) disturb(rule func(sent []byte) fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rule = rule
}

func (w *wire) forward(c, s net.Conn) {
	defer c.Close()
	defer s.Close()
	var mu sync.Mutex
	hangs, breaks := false, false
	var answers sync.WaitGroup
	answers.Go(func() {
		defer c.Close()
		buffer := make([]byte, 1<<20)
		for {
			n, err := s.Read(buffer)
			if err != nil {
				return
			}
			mu.Lock()
			hangs, breaks := hangs, breaks
			mu.Unlock()
			if breaks {
				return
			}
			if w.heard != nil {
				w.heard(buffer[:n])
			}
			if hangs {
				continue
			}
			if _, err := c.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	defer answers.Wait()
	defer s.Close()
	buffer := make([]byte, 4<<20)
	for {
		n, err := c.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		rule := w.rule
		w.mu.Unlock()
		f := passes
		if rule != nil {
			f = rule(buffer[:n])
		}
		mu.Lock()
		hangs, breaks = hangs || f == silent, breaks || f == answered
		mu.Unlock()
		switch f {
		case lost:
			n = 0
		case halved:
			n /= 2
		}
		if _, err := s.Write(buffer[:n]); err != nil {
			return
		}
		if f == lost || f == halved {
			for err == nil { // what follows does not arrive, either
				_, err = c.Read(buffer)
			}
			return
		}
	}
}

// once returns a rule that gives the first statement with text in it this fate. met reports whether
// there was one.
func once(text string, f fate) (rule func(sent []byte) fate, met func() bool) {
	var done atomic.Bool
	return func(sent []byte) fate {
		if bytes.Contains(sent, []byte(text)) && done.CompareAndSwap(false, true) {
			return f
		}
		return passes
	}, done.Load
}
