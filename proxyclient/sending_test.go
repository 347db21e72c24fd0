package proxyclient

import (
	"crypto/tls"
	"io"
	"net"
	"net/http/httptrace"
	"testing"
)

// A request has left if a byte was written on its connection for it. Bytes of earlier
// requests, or of the TLS handshake, do not count.
func TestSending(t *testing.T) {
	got := func(s *sending, c net.Conn) { s.trace().GotConn(httptrace.GotConnInfo{Conn: c}) }
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
