package proxyclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver"
)

var repeatStride = flag.Int("repeat-stride", 0, "TestRepeatedBytes repeats bytes at each nth offset: 1, for a whole campaign; 0: few")

// repetition says which bytes a repeater repeats.
type repetition struct {
	answers bool // bytes of the server; else bytes of the client
	offset  int  // how many bytes of that direction pass before, on all connections together
	length  int  // how many of the last bytes pass again; zero: of the message so far
	// late lets them pass again only when the client sends more on the connection: before that
	// reaches the server.
	late bool
}

func (r repetition) String() string {
	what, when, length := "a request", "at once", "all"
	if r.answers {
		what = "an answer"
	}
	if r.late {
		when = "late"
	}
	if r.length > 0 {
		length = fmt.Sprint(r.length, " bytes")
	}
	return fmt.Sprintf("%s of %s at %d, %s", length, what, r.offset, when)
}

// repeater is a network inside the process that repeats bytes of a connection, once.
type repeater struct {
	repetition
	// older hides the headers of wire 4 and later from both sides, as if the server were older.
	older bool

	accepted chan net.Conn
	closed   chan struct{}

	mu       sync.Mutex
	passed   [2]int   // bytes of clients and of servers
	ends     [2][]int // of their messages, in passed
	repeated bool
}

func newRepeater(r repetition) *repeater {
	return &repeater{repetition: r, accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (r *repeater) Accept() (net.Conn, error) {
	select {
	case c := <-r.accepted:
		return c, nil
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (r *repeater) Close() error {
	close(r.closed)
	return nil
}

// Addr implements [net.Listener].
func (r *repeater) Addr() net.Addr { return &net.UnixAddr{Name: "repeater", Net: "unix"} }

// direct connects to the server without repetitions.
func (r *repeater) direct(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case r.accepted <- server:
		return client, nil
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

// dial connects to the server through the repeater.
func (r *repeater) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	up, err := r.direct(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, down := net.Pipe()
	l := &link{repeater: r, down: down, up: up}
	go l.pass(false)
	go l.pass(true)
	return client, nil
}

// link is one connection through a repeater.
type link struct {
	*repeater
	down, up net.Conn  // to the client and to the server
	sent     [2][]byte // by the client and by the server
	begun    [2]int    // where in sent the last message begins
	last     int       // who sent last
	pending  []byte    // passes again when the client sends more
}

// pass forwards the answers, or the requests, until an end closes its connection.
func (l *link) pass(answers bool) {
	defer l.down.Close()
	defer l.up.Close()
	from, to := l.down, l.up
	if answers {
		from, to = l.up, l.down
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		b := slices.Clone(buf[:n])
		if l.older {
			b = bytes.ReplaceAll(b, []byte("Leasectl-Wire"), []byte("Unknown--Wire"))
			b = bytes.ReplaceAll(b, []byte("Leasectl-C"), []byte("Unknown--C"))
		}
		if !answers {
			l.passPending()
		}
		if _, err := to.Write(l.repeat(answers, b)); err != nil {
			return
		}
	}
}

// repeat returns b, with a repetition if it is due.
func (l *link) repeat(answers bool, b []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	side := 0
	if answers {
		side = 1
	}
	if l.last != side {
		l.ends[l.last] = append(l.ends[l.last], l.passed[l.last])
		l.last, l.begun[side] = side, len(l.sent[side])
	}
	at := l.offset - l.passed[side] // in b
	l.passed[side] += len(b)
	l.sent[side] = append(l.sent[side], b...)
	if answers != l.answers || l.repeated || at < 1 || at > len(b) {
		return b
	}
	l.repeated = true
	before := l.sent[side][:len(l.sent[side])-len(b)+at]
	again := before[max(0, len(before)-l.length):]
	if l.length == 0 {
		again = before[l.begun[side]:]
	}
	again = slices.Clone(again)
	if l.late {
		l.pending = again
		return b
	}
	return slices.Concat(b[:at], again, b[at:])
}

// passPending lets the bytes of a late repetition pass.
func (l *link) passPending() {
	l.mu.Lock()
	again := l.pending
	l.pending = nil
	l.mu.Unlock()
	if again == nil {
		return
	}
	if l.answers {
		l.down.Write(again)
	} else {
		l.up.Write(again)
	}
}

// client returns a client that connects by dial. Its connections end with the test.
func (r *repeater) client(t *testing.T, dial dialFunc) *Client {
	t.Helper()
	c, err := New(Options{URL: "http://proxy.test"})
	if err != nil {
		t.Fatal(err)
	}
	c.transport.Proxy = nil
	c.transport.DialContext = tracked(dial)
	t.Cleanup(c.Close)
	return c
}

// session is a client's calls at a server, and what is known about the leases there.
type session struct {
	t      *testing.T
	client *Client
	truth  *Client // sees no repetitions
	errs   []error
}

// ours lets a client make all of its calls, and compares each answer with the state of the server.
func (s *session) ours(ctx context.Context) {
	if _, err := s.client.Capabilities(ctx); err != nil {
		s.failed("capabilities", err)
	}
	first := s.acquire(ctx, Request{Ask: leaseapi.Ask{Type: "units", Count: 10}})
	if first == nil {
		return
	}
	s.renew(ctx, first.Leases)
	s.renew(ctx, first.Leases)
	lease, decided := first.Leases[0], 0
	for from, to := 10, 20; to > 2; from, to = to, to/4 {
		reply, err := s.client.Resize(ctx, leaseapi.ResizeRequest{Name: lease.Name, Generation: lease.Generation, From: from, After: &decided, Count: to})
		if held := s.held(ctx, first.Leases); err != nil {
			s.failed("resize", err)
			break
		} else if reply.Units != to || held[0].Units != to {
			s.t.Errorf("resized to %d: %+v, and the server has %+v", to, reply, held)
		}
		decided = reply.Resizes
	}
	second := s.acquire(ctx, Request{Ask: leaseapi.Ask{Type: "units", Count: 7}, Replaces: first.Leases})
	if second == nil {
		s.release(ctx, first.Leases)
		return
	}
	if held := s.held(ctx, first.Leases); len(held) > 0 {
		s.t.Errorf("replaced, but held: %+v", held)
	}
	s.renew(ctx, second.Leases)
	s.release(ctx, second.Leases)
	if listed := s.acquire(ctx, Request{Ask: leaseapi.Ask{Type: "names", Count: 2}}); listed != nil {
		s.releaseNames(ctx, listed.Leases)
	}
}

// failed notes the error of a call.
func (s *session) failed(what string, err error) {
	s.errs = append(s.errs, fmt.Errorf("%s: %w", what, err))
}

// held returns which of leases the server has.
func (s *session) held(ctx context.Context, leases []leaseapi.Lease) (held []leaseapi.PoolLease) {
	pools, err := s.truth.Pools(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range pools {
		for _, l := range p.Leases {
			if leases == nil || slices.ContainsFunc(leases, func(w leaseapi.Lease) bool { return w.Name == l.Name && w.Generation == l.Generation }) {
				held = append(held, l)
			}
		}
	}
	return held
}

func (s *session) acquire(ctx context.Context, r Request) *Grant {
	r.Owner, r.Wait = "job", 2*time.Minute
	g, err := s.client.Acquire(ctx, r)
	if err != nil {
		s.failed("acquire", err)
		return nil
	}
	units := 0
	for _, l := range s.held(ctx, g.Leases) {
		units += max(l.Units, 1)
	}
	if units != r.Count || g.TTL != pool.DefaultTTL {
		s.t.Errorf("acquire %d: granted %+v, and the server has %d units", r.Count, g, units)
	}
	return g
}

func (s *session) renew(ctx context.Context, leases []leaseapi.Lease) {
	r, err := s.client.Renew(ctx, leases, time.Hour)
	if err != nil {
		s.failed("renew", err)
		return
	}
	held := s.held(ctx, leases)
	if len(held) != len(leases) || held[0].Provisional || r.TTL != time.Hour {
		s.t.Errorf("renewed %v: %+v, and the server has %+v", leases, r, held)
	}
}

func (s *session) release(ctx context.Context, leases []leaseapi.Lease) {
	reply, err := s.client.Release(ctx, leaseapi.ReleaseRequest{Leases: leases})
	s.released(ctx, leases, reply, err)
}

func (s *session) releaseNames(ctx context.Context, leases []leaseapi.Lease) {
	n := NamesRelease{Owner: "job", Learned: time.Now()}
	for _, l := range leases {
		n.Names = append(n.Names, l.Name)
	}
	reply, err := s.client.ReleaseNames(ctx, n)
	s.released(ctx, leases, reply, err)
}

func (s *session) released(ctx context.Context, leases []leaseapi.Lease, reply leaseapi.ReleaseReply, err error) {
	if err != nil {
		s.failed("release", err)
		return
	}
	if held := s.held(ctx, leases); len(held) > 0 || len(reply.Released)+len(reply.Stale) != len(leases) {
		s.t.Errorf("released %v: %+v, and the server has %+v", leases, reply, held)
	}
}

// repeatAt runs a session on a network that repeats bytes, at a server of ours.
func repeatAt(t *testing.T, network *repeater) {
	server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{{Type: "units", Units: 100}, {Type: "names", Names: []string{"a", "b", "c", "d"}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, network) }()
	s := session{t: t, client: network.client(t, network.dial), truth: network.client(t, network.direct)}
	calls, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	s.ours(calls)
	for _, err := range s.errs {
		t.Errorf("%v", err)
	}
	if held := s.held(calls, nil); len(held) > 0 {
		t.Errorf("held: %+v", held)
	}
	s.client.Close()
	s.truth.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// repeatAtVersion1 runs a session at a version-1 proxy.
func repeatAtVersion1(t *testing.T, network *repeater) {
	v := newVersion1(t, "a", "b")
	srv := &http.Server{Handler: v, ErrorLog: discard}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(network) }()
	c := network.client(t, network.dial)
	ctx := t.Context()
	var names []string
	unknown := 0 // leases that may be held under unknown names
	for range 2 {
		g, err := c.Acquire(ctx, Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
		if u, ok := errors.AsType[*UnconfirmedError](err); ok {
			unknown += u.Count
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		name := g.Leases[0].Name
		if held, _ := v.state(); slices.Contains(names, name) || !slices.Contains(held, name) {
			t.Errorf("granted %s, and the proxy has %v", name, held)
		}
		names = append(names, name)
	}
	for _, name := range names {
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{name}})
		if err != nil && !errors.Is(err, ErrUnconfirmed) {
			t.Error(err)
		}
		if held, _ := v.state(); slices.Contains(held, name) {
			t.Errorf("released %s, %v, and the proxy has %v", name, err, held)
		}
	}
	if held, _ := v.state(); len(held) > unknown {
		t.Errorf("held: %v, and %d are unconfirmed", held, unknown)
	}
	c.Close()
	srv.Close()
	<-served
}

// Something between client and server repeats bytes, in either direction, at any offset of a
// connection, at once or before the next request. Each call says truly what the server did, and
// no lease outlives the calls. A server older than wire 4 takes a changed request for another good one,
// so there only whole requests are repeated; a version-1 proxy takes two acquires for two, so there
// no request is. The log has the seed of the offsets.
//
//	go test ./proxyclient -run TestRepeatedBytes -repeat-stride 1
func TestRepeatedBytes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, kind := range []struct {
		name string
		run  func(*testing.T, *repeater)
		may  func(r repetition, ends []int) bool // whether the kind of server is expected to cope
	}{
		{"wire 4", repeatAt, func(repetition, []int) bool { return true }},
		{"older", repeatAt, func(r repetition, ends []int) bool {
			return r.answers || r.length == 0 && slices.Contains(ends, r.offset)
		}},
		{"version 1", repeatAtVersion1, func(r repetition, _ []int) bool { return r.answers }},
	} {
		network := newRepeater(repetition{})
		network.older = kind.name == "older"
		bubble(t, kind.name+"/nothing", func(t *testing.T) { kind.run(t, network) })
		for _, r := range repetitions(rand.New(rand.NewPCG(seed, 0)), network.passed, network.ends) {
			if !kind.may(r, network.ends[0]) {
				continue
			}
			bubble(t, kind.name+"/"+r.String(), func(t *testing.T) {
				n := newRepeater(r)
				n.older = network.older
				kind.run(t, n)
			})
		}
	}
}

// repetitions returns where to repeat bytes of a session: at all ends of messages, and at
// others.
func repetitions(random *rand.Rand, size [2]int, ends [2][]int) (list []repetition) {
	stride := cmp.Or(*repeatStride, 97)
	for i := range 2 * 2 * 3 {
		r := repetition{answers: i%2 == 0, late: i/2%2 == 0, length: []int{1, 100, 0}[i/4]}
		side := 0
		if r.answers {
			side = 1
		}
		offsets := slices.Clone(ends[side])
		for at := 1 + random.IntN(stride); at <= size[side]; at += stride {
			offsets = append(offsets, at)
		}
		for _, r.offset = range offsets {
			list = append(list, r)
		}
	}
	return list
}

// A gateway may add parameters to each request.
func TestGatewayAddsParameters(t *testing.T) {
	bubble(t, "acquire", func(t *testing.T) {
		server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{{Type: "t", Names: []string{"a"}}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.RawQuery += "&from=gateway"
			server.ServeHTTP(w, r)
		}))
		_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t"}, Wait: time.Minute})
		want(t, err)
	})
}
