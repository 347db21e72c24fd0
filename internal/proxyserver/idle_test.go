package proxyserver

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/connlimit"
	"github.com/leasectl/leasectl/internal/wiretest"
)

// socket is a place where servers that stop when idle follow each other, as with
// `--proxy local`: a client that finds no socket takes the lock and starts a server.
type socket struct {
	t    *testing.T
	path string
	lock sync.Mutex // held by clients that start a server, and by a server that hides

	servers sync.WaitGroup
	started atomic.Int32
	hidden  atomic.Int32
	back    atomic.Int32

	onHide func() // before the socket is renamed
	most   int    // connections of each server; zero: the default
	latest *Server
}

func newSocket(t *testing.T) *socket {
	// Not t.TempDir: a socket's path must be short.
	dir, err := os.MkdirTemp("", "idle")
	if err != nil {
		t.Fatal(err)
	}
	s := &socket{t: t, path: filepath.Join(dir, "s"), onHide: func() {}}
	t.Cleanup(func() { s.servers.Wait(); os.RemoveAll(dir) })
	return s
}

// start starts a server; its caller holds the lock.
func (s *socket) start(after time.Duration) (served <-chan error) {
	l, err := net.Listen("unix", s.path)
	if err != nil {
		s.t.Error(err)
		return nil
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	srv, err := New(Options{Pools: []pool.Config{quota(2)}, maxConnections: s.most, Idle: &Idle{After: after, Hide: s.hide}})
	if err != nil {
		s.t.Error(err)
		return nil
	}
	s.started.Add(1)
	s.latest = srv
	ch := make(chan error, 1)
	s.servers.Go(func() {
		ch <- srv.Serve(s.t.Context(), l)
		if s.t.Context().Err() == nil {
			s.lock.Unlock() // hide took it
		}
	})
	return ch
}

func (s *socket) hide() (func(), error) {
	s.onHide()
	if !s.lock.TryLock() {
		return nil, errors.New("somebody is starting")
	}
	s.hidden.Add(1)
	away := s.path + ".away"
	if err := os.Rename(s.path, away); err != nil {
		return nil, err
	}
	return func() {
		if err := os.Rename(away, s.path); err != nil {
			s.t.Error(err)
		}
		s.back.Add(1)
		s.lock.Unlock()
	}, nil
}

// client has connections of its own, which end with it.
func (s *socket) client() *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.path)
	}}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (s *socket) post(c *http.Client, target, body string) error {
	resp, err := c.Post("http://local"+wiretest.Target(target), "", strings.NewReader(body))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func TestIdleStops(t *testing.T) {
	s := newSocket(t)
	s.lock.Lock()
	served := s.start(10 * time.Millisecond)
	s.lock.Unlock()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := os.Stat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// A lease, a waiter or a connection keeps the server.
func TestNotIdle(t *testing.T) {
	s := newSocket(t)
	s.lock.Lock()
	served := s.start(10 * time.Millisecond)
	c := s.client()
	if err := s.post(c, "/lease/acquire?type=q", ""); err != nil { // leaves a lease and a connection
		t.Fatal(err)
	}
	s.lock.Unlock()
	still := func(why string) {
		t.Helper()
		time.Sleep(50 * time.Millisecond) // long enough for the server to stop
		if s.hidden.Load() > 0 {
			t.Fatalf("the server hid although there was %s", why)
		}
	}
	still("a lease and a connection")
	c.CloseIdleConnections()
	still("a lease")
	if err := s.post(c, "/lease/release", `{"names":["q-0"]}`); err != nil {
		t.Fatal(err)
	}
	still("a connection")
	c.CloseIdleConnections()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// A connection that was refused for lack of room does not keep the server.
func TestIdleAfterARefusal(t *testing.T) {
	s := newSocket(t)
	s.most = 1
	s.lock.Lock()
	served := s.start(10 * time.Millisecond)
	var busy []net.Conn
	for range s.most + connlimit.Spare {
		nc, err := net.Dial("unix", s.path)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(nc, "POST /lease/release HTTP/1.0\r\nContent-Length: 2\r\n\r\n") // and no body
		busy = append(busy, nc)
		eventually(t, func() bool { // its request has begun
			c := s.latest.handler.connections.Stats()
			return c.Open == len(busy) && c.Idle == 0
		})
	}
	refused, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(refused); len(text) > 0 || err != nil {
		t.Errorf("one connection too many: %q, %v", text, err)
	}
	for _, nc := range append(busy, refused) {
		nc.Close()
	}
	s.lock.Unlock()
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("nobody is there, and the server goes on")
	}
}

// A client that connects while the server hides is served.
func TestConnectionAtTheLastMoment(t *testing.T) {
	s := newSocket(t)
	c := s.client()
	conn := make(chan net.Conn, 1)
	s.onHide = sync.OnceFunc(func() { // later tries find nobody
		nc, err := net.Dial("unix", s.path)
		if err != nil {
			t.Error(err)
		}
		conn <- nc
	})
	s.lock.Lock()
	served := s.start(10 * time.Millisecond)
	s.lock.Unlock()

	nc := <-conn
	if _, err := io.WriteString(nc, "POST /lease/acquire?type=q HTTP/1.0\r\n\r\n"); err != nil {
		t.Error(err)
	}
	if answer, err := io.ReadAll(nc); !strings.HasSuffix(string(answer), `{"names":["q-0"]}`) {
		t.Errorf("answer %q, %v", answer, err)
	}
	nc.Close()
	eventually(t, func() bool { return s.back.Load() == 1 })
	if err := s.post(c, "/lease/release", `{"names":["q-0"]}`); err != nil { // the server is found again
		t.Error(err)
	}
	c.CloseIdleConnections()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if s.back.Load() != 1 {
		t.Errorf("it came back %d times", s.back.Load())
	}
}

// A lease that was taken while the server hid keeps the server, although the client has gone.
func TestLeaseAtTheLastMoment(t *testing.T) {
	s := newSocket(t)
	s.onHide = sync.OnceFunc(func() {
		nc, err := net.Dial("unix", s.path)
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		io.WriteString(nc, "POST "+wiretest.Target("/lease/acquire?type=q&ttl=1s")+" HTTP/1.0\r\n\r\n")
		if answer, err := io.ReadAll(nc); !strings.Contains(string(answer), `["q-0"]`) {
			t.Errorf("answer %q, %v", answer, err)
		}
	})
	s.lock.Lock()
	served := s.start(10 * time.Millisecond)
	s.lock.Unlock()
	if err := <-served; err != nil { // when the lease has expired
		t.Errorf("Serve: %v", err)
	}
	if s.back.Load() != 1 {
		t.Errorf("it came back %d times, want once", s.back.Load())
	}
}

func TestHideFails(t *testing.T) {
	s := newSocket(t)
	tried := make(chan struct{}, 100)
	s.onHide = func() { tried <- struct{}{} }
	s.lock.Lock()
	served := s.start(5 * time.Millisecond)
	for range 3 {
		<-tried // again and again, since the lock is taken
	}
	c := s.client()
	if err := s.post(c, "/lease/release", `{}`); err != nil {
		t.Error(err)
	}
	c.CloseIdleConnections()
	s.lock.Unlock()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// No client is lost that comes when the server is about to stop: each finds the server, or
// finds no socket and starts the next one.
func TestNobodyIsLost(t *testing.T) {
	s := newSocket(t)
	const (
		after   = 5 * time.Millisecond
		lookFor = 100 * time.Millisecond // as in package idle
	)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 15 {
				time.Sleep(time.Duration(rand.IntN(int(after+lookFor) * 5 / 4)))
				nc, err := net.Dial("unix", s.path)
				for err != nil { // the server is hidden or gone: start one, as a client does
					s.lock.Lock()
					if nc, err = net.Dial("unix", s.path); err != nil {
						os.Remove(s.path)
						s.start(after)
						nc, err = net.Dial("unix", s.path)
					}
					s.lock.Unlock()
				}
				io.WriteString(nc, "POST /lease/release HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
				if answer, err := io.ReadAll(nc); !strings.HasPrefix(string(answer), "HTTP/1.0 204") {
					t.Errorf("answer %q, %v", answer, err)
				}
				nc.Close()
			}
		})
	}
	clients.Wait()
	s.servers.Wait()
	t.Logf("%d servers, hidden %d times, back %d times", s.started.Load(), s.hidden.Load(), s.back.Load())
	if s.started.Load() < 2 {
		t.Error("no server ever stopped")
	}
}

func TestIdleNeedsDeadlines(t *testing.T) {
	s, err := New(Options{Pools: []pool.Config{quota(1)}, Store: openStore(t, t.TempDir()), Idle: &Idle{}})
	if err != nil {
		t.Fatal(err)
	}
	l := newPipes()
	if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "no deadlines") {
		t.Errorf("Serve: %v", err)
	}
	if _, err := l.dial(t.Context(), "", ""); err == nil {
		t.Error("the listener is still open")
	}
}
