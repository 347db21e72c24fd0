package proxyclient

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

var noDeadline = context.Background()

func TestURL(t *testing.T) {
	for _, tt := range []struct {
		url  string
		base string // of the requests; empty: refused
	}{
		{"http://host", "http://host"},
		{"http://host:8080/", "http://host:8080"},
		{"https://host/some/prefix//", "https://host/some/prefix"},
		{"http://user:secret@[::1]:80", "http://user:secret@[::1]"},
		{"HTTP://host", "http://host"},
		{"unix:///run/lease.sock", "http://localhost"},
		{"host:8080", "http://host:8080"}, {"localhost", "http://localhost"}, {"proxy.test/prefix/", "http://proxy.test/prefix"},
		{"", ""}, {"http://", ""}, {"http:///path", ""}, {"http://:80", ""},
		{"ftp://host", ""}, {"local", ""}, {"unix://run/lease.sock", ""}, {"unix:///", ""}, {"unix:lease.sock", ""},
		{"http://host?x=1", ""}, {"http://host/#x", ""}, {"http://user:secret@host?", ""}, {"http://secret@host:port", ""},
		{"http://user:secret@ho st", ""},
	} {
		c, err := New(Options{URL: tt.url})
		switch {
		case err == nil && c.servers.bases[0] != tt.base:
			t.Errorf("%q: requests go to %q", tt.url, c.servers.bases[0])
		case err != nil && tt.base != "":
			t.Errorf("%q: %v", tt.url, err)
		case err != nil && (!strings.Contains(err.Error(), "unix:///PATH") || strings.Contains(err.Error(), "secret@ho") || strings.Contains(err.Error(), ":secret")):
			t.Errorf("%q: %v", tt.url, err)
		}
	}
	for _, token := range []string{"a b", "a\n", "tök"} {
		if _, err := New(Options{URL: "http://host", Token: token}); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

// grant answers any acquire of version 1 with the lease "a".
func grant(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"names":["a"]}`) }

func acquireA(t *testing.T, c *Client) {
	t.Helper()
	g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
	if err != nil || len(g.Leases) != 1 || g.Leases[0].Name != "a" {
		t.Fatalf("got %+v, %v", g, err)
	}
}

func TestHeadersAndPrefix(t *testing.T) {
	var got *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r; grant(w, r) }))
	defer srv.Close()
	c, err := New(Options{URL: srv.URL + "/some/prefix/", Token: "secret", UserAgent: "test/1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acquireA(t, c)
	if got.URL.Path != "/some/prefix/lease/acquire" || got.Header.Get("Authorization") != "Bearer secret" || got.UserAgent() != "test/1" ||
		got.Header.Get("Accept-Encoding") != "identity" || got.ContentLength != 0 {
		t.Errorf("request to %s with %v", got.URL, got.Header)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	path := filepath.Join(t.TempDir(), "s p%20ace")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(grant)}}
	srv.Start()
	defer srv.Close()
	c, err := New(Options{URL: "unix://" + strings.ReplaceAll(path, "%", "%25")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acquireA(t, c)
}

// An untrusted certificate is an error at once: a repetition would not help.
func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(grant))
	srv.Config.ErrorLog = discard
	srv.StartTLS()
	defer srv.Close()
	ca := caFile(t, srv)
	c, err := New(Options{URL: srv.URL, CAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acquireA(t, c)

	c, err = New(Options{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	retries := 0
	_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour, OnRetry: func(error) { retries++ }})
	if err == nil || retries != 0 || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnconfirmed) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("after %d retries: %v", retries, err)
	}

	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, empty + ".not"} {
		if _, err := New(Options{URL: srv.URL, CAFile: file}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("CA %s: %v", file, err)
		}
	}
}

func caFile(t *testing.T, srv *httptest.Server) string {
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A request that failed in the TLS handshake has not left, so it is sent again even if
// the proxy may be of version 1. A request that failed after the handshake may have left.
func TestTLSReset(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bytes int64 // that the server reads before it resets the connection
		err   error
	}{
		{"in the handshake", 1, nil},
		{"at once", 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var posts atomic.Int64
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { posts.Add(1); grant(w, r) }))
			srv.Config.ErrorLog = discard
			srv.Listener = &resetting{Listener: srv.Listener, times: 2, bytes: tt.bytes}
			srv.StartTLS()
			defer srv.Close()
			c, err := New(Options{URL: srv.URL, CAFile: caFile(t, srv)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			acquireA(t, c)
			if posts.Load() != 1 {
				t.Errorf("%d requests arrived", posts.Load())
			}
		})
	}
	t.Run("behind it", func(t *testing.T) {
		var posts atomic.Int64
		srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				http.NotFound(w, r)
				return
			}
			if r.URL.Path == leaseapi.PathAcquire { // else the request is taken back
				posts.Add(1)
			}
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		}))
		defer srv.Close()
		c, err := New(Options{URL: srv.URL, CAFile: caFile(t, srv)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
		want(t, err, ErrUnconfirmed)
		if posts.Load() != 1 {
			t.Errorf("sent %d times", posts.Load())
		}
	})
}

// resetting is a listener that resets the first connections after it read some bytes.
type resetting struct {
	net.Listener
	times int
	bytes int64
}

func (l *resetting) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.times == 0 {
			return c, err
		}
		l.times--
		io.CopyN(io.Discard, c, l.bytes)
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

// An idle connection that the server closed is no ambiguous failure.
func TestStaleConnection(t *testing.T) {
	bubble(t, "closed", func(t *testing.T) {
		v := newVersion1(t, "a", "b")
		c, m := serve(t, v)
		for range 2 {
			_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
			want(t, err)
			time.Sleep(serverIdle + time.Second)
		}
		if m.dials != 2 {
			t.Errorf("%d connections", m.dials)
		}
	})
	for name, dials := range map[string]int{"reused": 1, "not reused at version 1": 2} {
		bubble(t, name, func(t *testing.T) {
			var h http.Handler = newOurs(t, "a", "b")
			if dials == 2 {
				h = newVersion1(t, "a", "b")
			}
			c, m := serve(t, h)
			for range 2 {
				_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
				want(t, err)
			}
			if m.dials != dials {
				t.Errorf("%d connections", m.dials)
			}
		})
	}
}

// The page of a request is on the server that answered, whatever path the server sends.
// There is no page for a socket, which a browser cannot reach.
func TestPageURL(t *testing.T) {
	for _, tt := range []struct{ proxy, path, want string }{
		{"https://leases.test:8370/prefix/", "/ui/requests/r", "https://leases.test:8370/prefix/ui/requests/r"},
		{"http://user:secret@leases.test", "/ui/requests/r", "http://leases.test/ui/requests/r"},
		{"http://leases.test", "", ""},
		{"http://leases.test", "@evil.test/", ""},
		{"http://leases.test", ":80@evil.test/", ""},
		{"http://leases.test", "//evil.test", "http://leases.test//evil.test"},
		{"unix:///run/leases", "/ui/requests/r", ""},
	} {
		c, err := New(Options{URL: tt.proxy})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.pageURL(tt.path); got != tt.want {
			t.Errorf("%s at %s: %q, want %q", tt.path, tt.proxy, got, tt.want)
		}
	}
}
