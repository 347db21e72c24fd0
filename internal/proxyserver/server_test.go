package proxyserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// pipes is a listener in memory, which also works in a bubble of testing/synctest.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	server, client := net.Pipe()
	select {
	case p.conns <- server:
		return buffered{client}, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// buffered is the end of a pipe that, as that of TCP, takes what the other end does not read any more. So the
// client reads the answer to a request of which the server did not read all.
type buffered struct{ net.Conn }

func (b buffered) Write(p []byte) (int, error) {
	n, err := b.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(p), nil
	}
	return n, err
}

// peer is a server that serves, and a client of it.
type peer struct {
	t      testing.TB
	server *Server
	pipes  *pipes
	http   *http.Client
	cancel context.CancelFunc
	served chan error
}

// quota has the names q-0, q-1 and so on.
func quota(n int) pool.Config { return pool.Config{Type: "q", Names: pool.Numbered("q", n)} }

// start serves on pipes, and on more. Pipes need no descriptors, whose limit on this machine
// bounds connections otherwise.
func start(t testing.TB, opts Options, more ...net.Listener) *peer {
	t.Helper()
	if opts.maxConnections == 0 {
		opts.maxConnections = 20_000
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &peer{t: t, server: s, pipes: newPipes(), cancel: cancel, served: make(chan error, 1)}
	p.http = &http.Client{
		Transport: &http.Transport{
			DialContext: p.pipes.dial,
			// Else the transport sends a POST again by itself when the
			// connection that it reuses turns out to be closed.
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	go func() { p.served <- s.Serve(ctx, append(more, p.pipes)...) }()
	t.Cleanup(func() { p.stop() })
	return p
}

// stop stops the server and returns the error of Serve.
func (p *peer) stop() error {
	p.cancel()
	return p.ended()
}

// ended waits for the end of the server and returns the error of Serve.
func (p *peer) ended() error {
	err := <-p.served
	p.served <- err
	return err
}

// reply is an answer in full.
type reply struct {
	status int
	header http.Header
	body   string
}

func (p *peer) do(method, target, body string) reply {
	p.t.Helper()
	r, err := p.try(context.Background(), method, target, body)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, target, err)
	}
	return r
}

// local is do without a connection, for a server that accepts no connections.
func (p *peer) local(method, target, body string) reply {
	target = wiretest.Target(target)
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return reply{w.Code, w.Result().Header, w.Body.String()}
}

func (p *peer) try(ctx context.Context, method, target, body string) (reply, error) {
	target = wiretest.Target(target)
	req, err := http.NewRequestWithContext(ctx, method, "http://pipe"+target, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	return replyOf(resp)
}

// replyOf reads the body of resp and closes it.
func replyOf(resp *http.Response) (reply, error) {
	defer resp.Body.Close()
	if resp.Close {
		resp.Header.Set("Connection", "close") // net/http keeps it elsewhere
	}
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}

func (p *peer) acquire(query string) reply {
	p.t.Helper()
	r, err := p.ask(context.Background(), query)
	if err != nil {
		p.t.Fatalf("acquire %s: %v", query, err)
	}
	return r
}

// once is later for one slice alone.
func (p *peer) once(query string) <-chan reply {
	ch := make(chan reply, 1)
	go func() {
		r, err := p.try(context.Background(), "POST", "/lease/acquire?"+query, "")
		if err != nil {
			r.body = err.Error()
		}
		ch <- r
	}()
	return ch
}

// ask acquires as a client does that goes on after the first slice. Its answer is that of the second.
func (p *peer) ask(ctx context.Context, query string) (reply, error) {
	begun := time.Now()
	r, err := p.try(ctx, "POST", "/lease/acquire?"+query, "")
	if took := time.Since(begun); r.status != 202 || took < leaseapi.FirstSlice || took > leaseapi.FirstSlice+time.Second {
		return r, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return r, err
	}
	if wait, err := time.ParseDuration(values.Get("wait")); err == nil {
		values.Set("wait", (wait - leaseapi.FirstSlice).String())
	}
	return p.try(ctx, "POST", "/lease/acquire?"+values.Encode(), "")
}

// granted acquires and expects leases.
func (p *peer) granted(query string) leaseapi.AcquireReply {
	p.t.Helper()
	return decode[leaseapi.AcquireReply](p.t, p.acquire(query), 200)
}

func (p *peer) release(body string) reply {
	p.t.Helper()
	return p.do("POST", "/lease/release", body)
}

func (p *peer) pools() []leaseapi.Pool {
	p.t.Helper()
	var all []leaseapi.Pool
	for after := ""; ; {
		r := decode[leaseapi.PoolsReply](p.t, p.do("GET", "/pools?after="+url.QueryEscape(after), ""), 200)
		for _, pl := range r.Pools {
			if n := len(all); n > 0 && all[n-1].Type == pl.Type { // the rest of the pool
				all[n-1].Leases, all[n-1].Waiters = append(all[n-1].Leases, pl.Leases...), append(all[n-1].Waiters, pl.Waiters...)
				continue
			}
			all = append(all, pl)
		}
		if after = r.Next; after == "" {
			return all
		}
	}
}

// inUse returns how many units of the first pool are in use.
func (p *peer) inUse() int {
	p.t.Helper()
	return p.pools()[0].InUse
}

func (p *peer) waitingFor(n int) {
	p.t.Helper()
	eventually(p.t, func() bool { return p.pools()[0].Waiting == n })
}

// later runs an acquire that is expected to wait.
func (p *peer) later(ctx context.Context, query string) <-chan reply {
	ch := make(chan reply, 1)
	go func() {
		r, err := p.ask(ctx, query)
		if err != nil {
			r.body = err.Error()
		}
		ch <- r
	}()
	return ch
}

func decode[T any](t testing.TB, r reply, status int) (v T) {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	return v
}

// eventually waits until a condition holds that another goroutine brings about; for tests
// outside a bubble.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
		time.Sleep(time.Millisecond)
	}
}

// record returns a recorder and a request, for calls without a connection.
func record(method, target, body string) (*httptest.ResponseRecorder, *http.Request) {
	return httptest.NewRecorder(), httptest.NewRequest(method, wiretest.Target(target), strings.NewReader(body))
}

// withLeases returns the body of a renewal or release of these leases, and nothing else.
func withLeases(leases ...leaseapi.Lease) string {
	var all []string
	for _, l := range leases {
		all = append(all, fmt.Sprintf(`{"name":%q,"generation":%d}`, l.Name, l.Generation))
	}
	return `{"leases":[` + strings.Join(all, ",") + `]}`
}

// logLines returns the lines of a log in JSON, each as a T.
func logLines[T any](t testing.TB, text string) (lines []T) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var line T
		if err := d.Decode(&line); err == io.EOF {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

func num(n uint64) string { return strconv.FormatUint(n, 10) }
