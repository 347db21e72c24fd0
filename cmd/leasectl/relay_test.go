package main

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

// A relay stands between clients and a world's proxy.
type relay struct {
	// silent makes the relay take requests without forwarding or answering them.
	silent atomic.Bool
	taken  atomic.Int64 // requests that were taken while silent
	// answers tells whether the answer to a forwarded request reaches the client; nil:
	// always.
	answers func(*http.Request) bool

	silentFrom atomic.Pointer[string] // the first request for this path makes it silent

	mu   sync.Mutex
	seen []seen

	close func() // ends the relay
}

// seen is a request that reached the relay.
type seen struct {
	path string
	at   time.Time
}

// requests returns the requests for a path so far, or for all paths if path is empty.
func (r *relay) requests(path string) (matching []seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if path == "" || s.path == path {
			matching = append(matching, s)
		}
	}
	return matching
}

// relay starts a relay, which later commands of the world use.
func (w *world) relay() *relay { return w.relayAnswers(nil) }

// relayAnswers starts a relay like relay. Only answers for which answers returns true arrive.
func (w *world) relayAnswers(answers func(*http.Request) bool) *relay {
	w.t.Helper()
	proxy := w.variable("LEASE_PROXY_SERVER_URL")
	r := &relay{answers: answers}
	hand := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: "proxy"}) },
		ErrorLog:  log.New(io.Discard, "", 0),
		Transport: unixTransport(strings.TrimPrefix(proxy, "unix://")),
	}
	var address string
	address, r.close = w.listen(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, seen{req.URL.Path, time.Now()})
		r.mu.Unlock()
		if from := r.silentFrom.Load(); from != nil && *from == req.URL.Path {
			r.silent.Store(true)
		}
		if r.silent.Load() {
			r.taken.Add(1)
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
	w.env = append(w.env, "LEASE_PROXY_SERVER_URL="+address)
	return r
}

// unixTransport sends each request to the server on socket, over a connection of its own.
func unixTransport(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}, DisableKeepAlives: true}
}

// listen serves h on a socket until closing is called or the test ends. The address is a value for
// --proxy.
func (w *world) listen(h http.Handler) (address string, closing func()) {
	w.t.Helper()
	dir, err := os.MkdirTemp(w.dir, "listen")
	if err != nil {
		w.t.Fatal(err)
	}
	socket := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		w.t.Fatal(err)
	}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	closing = sync.OnceFunc(func() {
		server.Close()
		<-served
	})
	w.t.Cleanup(closing)
	return "unix://" + socket, closing
}

// variable returns the value of a variable in commands of the world.
func (w *world) variable(name string) (value string) {
	for _, v := range w.env {
		if text, is := strings.CutPrefix(v, name+"="); is {
			value = text
		}
	}
	return value
}
