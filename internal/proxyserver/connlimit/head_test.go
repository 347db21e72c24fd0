package connlimit

import (
	"bytes"
	"crypto/tls"
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
	closed *bool
}

func (t text) Read(b []byte) (int, error) { return t.Reader.Read(b) }

func (t text) Close() error {
	*t.closed = true
	return nil
}

// What is kept of all connections before their requests are admitted is bounded, beyond what each may send in
// any case. Those whose heads are long for longest make room, so that who does not end them keeps nobody out. A request that
// is admitted, answered or gone leaves its part to others.
func TestHeads(t *testing.T) {
	const long = 16 << 10
	limit, q := New(1000), make(queue, 1)
	l := limit.Listener(Heads(q))
	say := func(size int) (c net.Conn, closed *bool) {
		t.Helper()
		closed = new(bool)
		q <- text{Reader: bytes.NewReader(make([]byte, size)), closed: closed}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatal(err)
		}
		return c, closed
	}
	var conns []net.Conn
	var closed []*bool
	for range mostHeads / (long - freeHead) {
		c, gone := say(long)
		conns, closed = append(conns, c), append(closed, gone)
	}
	next := func(evicted int) {
		t.Helper()
		c, gone := say(long)
		if *gone {
			t.Error("a new one is closed")
		}
		for i, gone := range closed {
			if *gone != (i == evicted) {
				t.Errorf("%d is closed: %t", i, *gone)
			}
			*gone = false
		}
		limit.ConnState(c, http.StateClosed)
	}
	limit.Admit(conns[0])
	next(-1)
	limit.ConnState(conns[0], http.StateIdle) // its next head counts again
	next(-1)
	say(long)
	next(1)
	say(freeHead)
	next(-1)
	for _, c := range conns {
		limit.ConnState(c, http.StateClosed)
	}
	if n := limit.heads.bytes; n != long-freeHead || limit.heads.long.Len() != 1 {
		t.Errorf("%d bytes count of %d connections", n, limit.heads.long.Len())
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
	if n := limit.heads.bytes; n < 12<<10 {
		t.Errorf("%d bytes count", n)
	}
	limit.Admit(c)
	if n := limit.heads.bytes; n != 0 {
		t.Errorf("%d bytes count once it is admitted", n)
	}
}
