package proxyserver

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// The server waits for a body for at most 10 s, and that limit does not cut a wait that follows
// a body.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		c, err := p.pipes.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		go io.WriteString(c, "POST /lease/acquire?type=q HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123")
		answer, err := io.ReadAll(c)
		if took := time.Since(begin); err != nil || took < bodyTime || took > 2*bodyTime || !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
			t.Errorf("after %v: %q, %v", took, answer, err)
		}
		c.Close()

		p.acquire("type=q")
		waits := make(chan reply, 1)
		go func() { waits <- p.do("POST", "/lease/acquire?type=q", "a body") }()
		time.Sleep(time.Hour)
		p.release(`{"names":["q-0"]}`)
		if r := <-waits; r.body != `{"names":["q-0"]}` {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

// A body that no handler reads holds no connection either: net/http waits for the body before
// the answer.
func TestSlowBodyThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}, Auth: &auth.Config{}})
		for _, c := range []struct{ method, path, want string }{
			{"GET", "/healthz", "200"},
			{"POST", "/healthz", "405"},
			{"GET", "/nowhere", "401"},
			{"POST", "/lease/release", "401"},
			{"POST", "/acquire", "404"},
			{"OPTIONS", "*", "401"},
			{"GET", "/ui/login", "200"},
			{"GET", "/", "303"},
		} {
			for _, length := range []string{"Content-Length: 9", "Transfer-Encoding: chunked"} {
				nc, err := p.pipes.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				// No timer of the server lasts longer than a day: an unbounded read does.
				nc.SetReadDeadline(time.Now().Add(24 * time.Hour))
				begin := time.Now()
				go io.WriteString(nc, c.method+" "+c.path+" HTTP/1.1\r\nHost: x\r\n"+length+"\r\n\r\n")
				answer, err := io.ReadAll(nc)
				if took := time.Since(begin); err != nil || took > 2*bodyTime || !strings.HasPrefix(string(answer), "HTTP/1.1 "+c.want) {
					t.Errorf("%s %s, %s: after %v: %q, %v", c.method, c.path, length, took, answer, err)
				}
				nc.Close()
			}
		}
	})
}

// A client that closes only its sending side counts as gone. It does not get an empty answer,
// which would be a success.
func TestHalfClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, Options{Pools: []pool.Config{quota(1)}}, l)
	p.acquire("type=q")
	for _, c := range []struct{ query, want string }{
		{"type=q", "Failed to acquire lease \"q\": the client closed the connection\n"},
		{"type=q&request_id=r", leaseapi.ProblemUnavailable},
	} {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(nc, "POST "+wiretest.Target("/lease/acquire?"+c.query)+" HTTP/1.0\r\n\r\n")
		p.waitingFor(1)
		nc.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(nc)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 503") || !strings.Contains(string(answer), c.want) {
			t.Errorf("%s: %q, %v", c.query, answer, err)
		}
		nc.Close()
	}
}

func TestHeadersAreBounded(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	if r := p.acquire("type=" + strings.Repeat("x", 32<<10)); r.status != 431 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A listener that fails ends Serve, which returns the error.
func TestListenerFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Pools: []pool.Config{quota(1)}})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Serve(t.Context(), newPipes(), l); err == nil || !strings.Contains(err.Error(), "serve on "+l.Addr().String()) {
		t.Errorf("Serve: %v", err)
	}
}

// The listeners of the caller stay its own.
func TestServeKeepsListeners(t *testing.T) {
	s, err := New(Options{Pools: []pool.Config{quota(1)}})
	if err != nil {
		t.Fatal(err)
	}
	l := newPipes()
	listeners := []net.Listener{l}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Serve(ctx, listeners...); err != nil || listeners[0] != net.Listener(l) {
		t.Errorf("%T, %v", listeners[0], err)
	}
}

// An error of the network, or a lack of memory, that fails one accept does not end the listener:
// the server accepts the next connection.
func TestConnectionsThatCannotBeAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs []error
		for _, no := range []syscall.Errno{
			syscall.ENOMEM, syscall.ENOBUFS, syscall.ENOSPC, syscall.EPERM, syscall.EMFILE, syscall.ENETDOWN,
			syscall.EPROTO, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH,
		} {
			errs = append(errs, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", no)})
		}
		pipes := newPipes()
		p := start(t, Options{Pools: []pool.Config{quota(1)}}, &refusing{Listener: pipes, errs: errs})
		p.http.Transport.(*http.Transport).DialContext = pipes.dial
		if r := p.acquire("type=q"); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

// refusing is a listener whose Accept fails with each of errs first.
type refusing struct {
	net.Listener
	errs []error
}

func (l *refusing) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.Listener.Accept()
}

// A line for each grant, release and expiry says who, what, and how long.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		p := start(t, Options{Pools: []pool.Config{quota(2)}, Log: slog.New(slog.NewJSONHandler(&log, nil))})
		a := p.granted("type=q&owner=me&request_id=a&count=2").Leases
		waits := p.later(t.Context(), "type=q&owner=you&wait=1h")
		time.Sleep(3 * time.Second)
		p.release(`{"names":["q-0"],"owner":"me"}`)
		<-waits
		p.release(`{"names":["q-0"],"delay":"1m"}`)
		time.Sleep(27 * time.Second) // q-1 was never confirmed
		synctest.Wait()
		p.stop()

		type line struct {
			Msg, Owner, Type string
			Names            []string
			Generations      []uint64
			RequestID        string `json:"request_id"`
			Waited, Held     time.Duration
			Delay            time.Duration
		}
		var got []line
		for _, l := range logLines[line](t, log.String()) {
			if l.Owner != "" {
				got = append(got, l)
			}
		}
		g0, g1 := a[0].Generation, a[1].Generation
		want := []line{
			{Msg: "granted", Owner: "me", Names: []string{"q-0", "q-1"}, Generations: []uint64{g0, g1}, RequestID: "a"},
			{Msg: "queued", Owner: "you"},
			{Msg: "released", Owner: "me", Names: []string{"q-0"}, Generations: []uint64{g0}, RequestID: "a", Held: 3 * time.Second},
			{Msg: "granted", Owner: "you", Names: []string{"q-0"}, Generations: []uint64{g1 + 1}, Waited: 3 * time.Second},
			{Msg: "release delayed", Owner: "you", Names: []string{"q-0"}, Generations: []uint64{g1 + 1}, Delay: time.Minute},
			{Msg: "expired", Owner: "me", Names: []string{"q-1"}, Generations: []uint64{g1}, RequestID: "a", Held: 30 * time.Second},
		}
		for i := range want {
			want[i].Type = "q"
		}
		for i := range max(len(got), len(want)) {
			var g, w line
			if i < len(got) {
				g = got[i]
			}
			if i < len(want) {
				w = want[i]
			}
			if !reflect.DeepEqual(g, w) {
				t.Errorf("line %d\n%+v, want\n%+v", i, g, w)
			}
		}
	})
}
