package proxyclient

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A request has left if a byte was written on its connection for it. Bytes of earlier
// requests, or of the TLS handshake, do not count.
func TestSending(t *testing.T) {
	got := func(s *sending, c net.Conn) { s.trace(t.Context()).GotConn(httptrace.GotConnInfo{Conn: c}) }
	client, server := net.Pipe()
	defer client.Close()
	go io.Copy(io.Discard, server)
	c := &trackedConn{Conn: client}
	var s sending
	expect := func(want bool, when string) {
		t.Helper()
		if s.sent() != want {
			t.Errorf("%s: sent %t, want %t", when, !want, want)
		}
	}
	expect(false, "no connection yet")
	c.Write([]byte("handshake"))
	got(&s, c)
	expect(false, "only a handshake")
	c.Write([]byte("x"))
	expect(true, "a byte was written")
	s.begin()
	expect(false, "the next attempt has no connection")
	got(&s, c)
	expect(false, "the next attempt, on the same connection")
	server.Close()
	if n, err := c.Write([]byte("x")); n != 0 || err == nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	expect(false, "the write failed at its first byte")

	c.wrote.Store(true)
	got(&s, tls.Client(tls.Client(c, &tls.Config{}), &tls.Config{}))
	expect(false, "only handshakes, of an https proxy too")
	c.wrote.Store(true)
	expect(true, "a byte was written through TLS")
	got(&s, client)
	expect(true, "a connection that nobody tracked")
}

// A call whose context ends before requests may be sent ends at once, and sends nothing.
func TestNeverReady(t *testing.T) {
	bubble(t, "an acquire", func(t *testing.T) {
		s := newOurs(t, "a")
		c, m := serve(t, s)
		ready := make(chan struct{})
		c.ready = ready
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id", Wait: time.Hour})
			done <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			want(t, err, context.Canceled)
		default:
			t.Error("the acquire goes on")
			close(ready)
			<-done
		}
		if m.dialled() != 1 || len(s.acquires)+len(s.released) != 0 {
			t.Errorf("dialled %d times, sent %q and %v", m.dialled(), s.acquires, s.released)
		}
	})
	bubble(t, "a connection with TLS", func(t *testing.T) {
		client, server := net.Pipe()
		go io.Copy(io.Discard, server)
		c := &trackedConn{Conn: client}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := sending{ready: make(chan struct{})}
		s.trace(ctx).GotConn(httptrace.GotConnInfo{Conn: tls.Client(c, &tls.Config{})})
		if _, err := c.Write([]byte("x")); err == nil || s.sent() {
			t.Errorf("sent %t, error %v", s.sent(), err)
		}
	})
}
