package clitest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A Relay stands between clients and a world's proxy.
type Relay struct {
	// Silent makes the relay take requests without forwarding or answering them.
	Silent atomic.Bool
	Taken  atomic.Int64 // requests that were taken while silent
	// answers tells whether the answer to a forwarded request reaches the client; nil:
	// always.
	answers func(*http.Request) bool

	SilentFrom atomic.Pointer[string] // the first request for this path makes it silent

	mu   sync.Mutex
	seen []Seen

	Close func() // ends the relay
}

// Seen is a request that reached the relay.
type Seen struct {
	Path string
	At   time.Time
}

// Requests returns the requests for a path so far, or for all paths if path is empty.
func (r *Relay) Requests(path string) (matching []Seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if path == "" || s.Path == path {
			matching = append(matching, s)
		}
	}
	return matching
}

// Relay starts a relay, which later commands of the world use.
func (w *World) Relay() *Relay { return w.RelayAnswers(nil) }

// RelayAnswers is [World.Relay]. Only answers for which answers returns true arrive.
func (w *World) RelayAnswers(answers func(*http.Request) bool) *Relay {
	w.T.Helper()
	proxy := w.Variable("LEASE_PROXY_SERVER_URL")
	r := &Relay{answers: answers}
	hand := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: "proxy"}) },
		ErrorLog:  log.New(io.Discard, "", 0),
		Transport: UnixTransport(strings.TrimPrefix(proxy, "unix://")),
	}
	var address string
	address, r.Close = w.Listen(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, Seen{req.URL.Path, time.Now()})
		r.mu.Unlock()
		if from := r.SilentFrom.Load(); from != nil && *from == req.URL.Path {
			r.Silent.Store(true)
		}
		if r.Silent.Load() {
			r.Taken.Add(1)
			io.Copy(io.Discard, req.Body) // the server notices a lost connection only after that
			<-req.Context().Done()
			panic(http.ErrAbortHandler)
		}
		if r.answers != nil && !r.answers(req) {
			hand.ServeHTTP(httptest.NewRecorder(), req)
			if req.URL.Path == leaseapi.PathRelease {
				time.Sleep(2 * time.Second) // longer than any delay of a test's release
			}
			panic(http.ErrAbortHandler)
		}
		hand.ServeHTTP(out, req)
	}))
	w.Env = append(w.Env, "LEASE_PROXY_SERVER_URL="+address)
	return r
}

// UnixTransport sends each request to the server on socket, over a connection of its own.
func UnixTransport(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}, DisableKeepAlives: true}
}

// Listen serves h on a socket until closing is called or the test ends. The address is a value for
// --proxy.
func (w *World) Listen(h http.Handler) (address string, closing func()) {
	w.T.Helper()
	dir, err := os.MkdirTemp(w.Dir, "listen")
	if err != nil {
		w.T.Fatal(err)
	}
	socket := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		w.T.Fatal(err)
	}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	closing = sync.OnceFunc(func() {
		server.Close()
		<-served
	})
	w.T.Cleanup(closing)
	address = (&url.URL{Scheme: "unix", Path: socket}).String() // as messages show it, with %20 for a space
	return address, closing
}

// Variable returns the value of a variable in commands of the world.
func (w *World) Variable(name string) (value string) {
	for _, v := range w.Env {
		if text, is := strings.CutPrefix(v, name+"="); is {
			value = text
		}
	}
	return value
}
