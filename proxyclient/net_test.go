package proxyclient

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// memory is a network inside the process, for tests in a synctest bubble. Each fault
// happens to one attempt, in order; after the last fault there are no more failures.
type memory struct {
	h      http.Handler
	conns  chan net.Conn
	closed chan struct{}

	mu     sync.Mutex
	faults []fault
	dials  int
	// refuse returns why no connection to a HOST:PORT is made; nil, or a nil error: it is made.
	refuse func(addr string) error
}

// discard is for servers whose clients go away on purpose.
var discard = log.New(io.Discard, "", 0)

// fault is a failure of one attempt. The zero fault is no failure.
type fault struct {
	dial   error // connecting fails
	cut    cut
	done   bool // the request is carried out, whatever is answered
	status int
	header http.Header
	body   string
	hang   bool // the request arrives, and is never answered
	delay  time.Duration
}

// cut is where a connection breaks.
type cut int

const (
	whole      cut = iota
	atOnce         // before a byte of the request was written
	inRequest      // after its first byte
	noAnswer       // after the request was read
	halfAnswer     // in the middle of the answer's body
	stalled        // not at all, but the second half of the body never comes
	endless        // not at all, but the body has no end
	notHTTP        // after an answer that is not HTTP
	switching      // not at all, but the server switches to another protocol, and waits for the client
	dripping       // not at all, but each byte of the body comes after the delay
	hinting        // not at all, but early hints come instead of an answer, without end
)

var (
	dialRefused   = fault{dial: syscall.ECONNREFUSED}
	resetAtOnce   = fault{cut: atOnce}
	resetInside   = fault{cut: inRequest}
	lostRequest   = fault{cut: noAnswer}
	lostAnswer    = fault{cut: noAnswer, done: true}
	halfAnAnswer  = fault{cut: halfAnswer, done: true}
	stalledAnswer = fault{cut: stalled, done: true}
	endlessAnswer = fault{cut: endless}
	hanging       = fault{hang: true}
	otherLanguage = fault{cut: notHTTP}
	switched      = fault{cut: switching}
	hints         = fault{cut: hinting}
	garbage       = fault{status: 200, body: `{"names":["a"`}
	garbageDone   = fault{status: 200, body: `{"names":["a"`, done: true}
	htmlPage      = fault{status: 200, body: "<!DOCTYPE html><p>log in</p>"}
	badGateway    = fault{status: 502, body: "<html>bad gateway</html>"}
	gatewayDone   = fault{status: 504, body: "timeout", done: true}
)

func status(code int) fault { return fault{status: code, body: "no"} }

// serverIdle is shorter than the client's idleTime.
const serverIdle = 10 * time.Second

// serve starts a server for h on a network of its own, and returns a client of
// the server. Both end with the test.
func serve(t *testing.T, h http.Handler, faults ...fault) (*Client, *memory) {
	t.Helper()
	m := &memory{h: h, conns: make(chan net.Conn), closed: make(chan struct{}), faults: faults}
	srv := &http.Server{Handler: http.HandlerFunc(m.handle), ErrorLog: discard, IdleTimeout: serverIdle}
	srv.SetKeepAlivesEnabled(len(faults) == 0) // so that each attempt dials
	served := make(chan error, 1)
	go func() { served <- srv.Serve(m) }()
	c, err := New(Options{URL: "http://proxy.test"})
	if err != nil {
		t.Fatal(err)
	}
	c.transport.Proxy = nil
	c.transport.DialContext = tracked(m.dial)
	t.Cleanup(func() {
		c.Close()
		srv.Close()
		<-served
	})
	return c, m
}

// add lets further attempts fail. It works only if serve was called with faults.
func (m *memory) add(f ...fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, f...)
}

// dialled returns how often the client dialled.
func (m *memory) dialled() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dials
}

func (m *memory) pop(mine func(fault) bool) (f fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.faults) > 0 && mine(m.faults[0]) {
		f, m.faults = m.faults[0], m.faults[1:]
	}
	return f
}

func (m *memory) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	m.mu.Lock()
	m.dials++
	m.mu.Unlock()
	if m.refuse != nil {
		if err := m.refuse(addr); err != nil {
			return nil, err
		}
	}
	f := m.pop(func(f fault) bool { return f.dial != nil || f.cut == atOnce || f.cut == inRequest })
	if f.dial != nil {
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: f.dial}
	}
	client, server := net.Pipe()
	switch f.cut {
	case atOnce:
		server.Close()
		return client, nil
	case inRequest:
		go func() {
			server.Read(make([]byte, 1))
			server.Close()
		}()
		return client, nil
	}
	select {
	case m.conns <- server:
		return client, nil
	case <-m.closed:
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	select {
	case <-m.closed:
	default:
		close(m.closed)
	}
	return nil
}

func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "mem", Net: "mem"} }

func (m *memory) handle(w http.ResponseWriter, r *http.Request) {
	f := m.pop(func(fault) bool { return true })
	time.Sleep(f.delay)
	out := httptest.NewRecorder()
	out.Code = f.status
	out.Body.WriteString(f.body)
	if f.done || f.status == 0 && f.cut == whole && !f.hang {
		real := httptest.NewRecorder()
		m.h.ServeHTTP(real, r)
		if f.status == 0 {
			out = real
		}
	}
	for _, h := range []http.Header{out.Header(), f.header} {
		for k, v := range h {
			w.Header()[k] = v
		}
	}
	switch {
	case f.hang:
		io.Copy(io.Discard, r.Body) // only then is a lost connection seen
		<-r.Context().Done()
	case f.cut == noAnswer:
		panic(http.ErrAbortHandler) // closes the connection
	case f.cut == notHTTP:
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n")
		c.Close()
	case f.cut == switching:
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(io.Discard, c)
		c.Close()
	case f.cut == hinting:
		for r.Context().Err() == nil {
			w.WriteHeader(http.StatusEarlyHints)
		}
	case f.cut == dripping:
		w.WriteHeader(out.Code)
		for _, b := range out.Body.Bytes() {
			http.NewResponseController(w).Flush()
			time.Sleep(f.delay)
			w.Write([]byte{b})
		}
	case f.cut == endless:
		for r.Context().Err() == nil {
			w.Write(make([]byte, 64<<10))
		}
	case f.cut == halfAnswer || f.cut == stalled:
		body := out.Body.Bytes()
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(out.Code)
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		if f.cut == stalled {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(out.Code)
		w.Write(out.Body.Bytes())
	}
}
