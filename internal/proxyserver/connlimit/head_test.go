package connlimit

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// text is a connection whose client has sent text.
type text struct {
	net.Conn
	io.Reader
}

func (t text) Read(b []byte) (int, error) { return t.Reader.Read(b) }

// What is read of all connections before their requests are admitted is bounded, beyond what each may send in
// any case. A request that is admitted, answered or gone leaves its part to others.
func TestHeads(t *testing.T) {
	const long = 16 << 10
	limit, q := New(1000), make(queue, 1)
	l := limit.Listener(Heads(q))
	say := func(size int) (net.Conn, error) {
		t.Helper()
		q <- text{Reader: bytes.NewReader(make([]byte, size))}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, c)
		return c, err
	}
	var long1 []net.Conn
	for range mostHeads / (long - freeHead) {
		c, err := say(long)
		if err != nil {
			t.Fatalf("connection %d: %v", len(long1), err)
		}
		long1 = append(long1, c)
	}
	full := func(want bool) {
		t.Helper()
		c, err := say(long)
		if errors.Is(err, errHeads) != want {
			t.Errorf("a long head: %v; want it refused: %t", err, want)
		}
		limit.ConnState(c, http.StateClosed)
	}
	full(true)
	if c, err := say(freeHead); err != nil {
		t.Errorf("a short head: %v", err)
	} else {
		limit.ConnState(c, http.StateClosed)
	}
	limit.Admit(long1[0])
	full(false)
	limit.ConnState(long1[0], http.StateIdle) // its next head counts again
	full(false)
	limit.ConnState(long1[0], http.StateClosed)
	for _, c := range long1[1:] {
		limit.ConnState(c, http.StateClosed)
	}
	if n := limit.heads.Load(); n != 0 {
		t.Errorf("%d bytes count, and nobody is there", n)
	}
}

// Connections with TLS count, too.
func TestHeadsWithTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	limit, q := New(10), make(queue, 1)
	l := limit.Listener(Heads(tls.NewListener(Heads(q), &tls.Config{Certificates: server.TLS.Certificates})))
	ours, theirs := net.Pipe()
	q <- ours
	go func() {
		c := tls.Client(theirs, &tls.Config{InsecureSkipVerify: true})
		c.Write(make([]byte, 16<<10))
		c.Close()
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 16<<10)); err != nil {
		t.Fatal(err)
	}
	if n := limit.heads.Load(); n < 12<<10 {
		t.Errorf("%d bytes count", n)
	}
	limit.Admit(c)
	if n := limit.heads.Load(); n != 0 {
		t.Errorf("%d bytes count once it is admitted", n)
	}
}
