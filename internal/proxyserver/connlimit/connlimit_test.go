package connlimit

import (
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// queue is a listener whose connections wait in a channel.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) { return <-q, nil }
func (q queue) Close() error              { return nil }
func (q queue) Addr() net.Addr            { return nil }

// conn is a connection that knows whether it was closed.
type conn struct {
	net.Conn
	closed bool
}

func (c *conn) Close() error { c.closed = true; return nil }

// The connection that is quiet for longest is closed for a new one, also one with a request that
// was not admitted. If all are busy, there are the spare ones, on which no request should wait. Beyond them the new one is closed.
func TestWhichConnectionGoes(t *testing.T) {
	limit, q := New(2), make(queue, 2)
	l := limit.Listener(q)
	accept := func() *conn {
		t.Helper()
		c := new(conn)
		q <- c
		if got, err := l.Accept(); got != c || err != nil {
			t.Fatalf("accepted %v, %v", got, err)
		}
		return c
	}
	first, second := accept(), accept()
	limit.Admit(first)
	limit.ConnState(first, http.StateIdle) // later than second
	limit.ConnState(second, http.StateActive)
	limit.ConnState(second, http.StateIdle) // it was not admitted
	third := accept()
	if first.closed || !second.closed {
		t.Fatalf("first is closed: %t, second: %t", first.closed, second.closed)
	}
	limit.ConnState(second, http.StateClosed) // it no longer counts
	if limit.Admit(second) || !limit.Admit(first) || !limit.Admit(third) {
		t.Error("other connections than those that are open are admitted")
	}
	if limit.Crowded() {
		t.Error("crowded without one too many")
	}
	for range Spare {
		limit.Admit(accept())
	}
	if !limit.Crowded() {
		t.Error("not crowded with the spare ones")
	}
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	refused, last := new(conn), new(conn)
	q <- refused
	for limit.Stats().Refused == 0 {
		runtime.Gosched()
	}
	limit.ConnState(first, http.StateClosed)
	q <- last
	if <-accepted != last || !refused.closed || third.closed {
		t.Error("the newest was not the one that went")
	}
	if got, want := limit.Stats(), (Stats{Most: 2, Open: 2 + Spare, Idle: 1, ClosedIdle: 1, Refused: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A TLS client that does not read delays no other client: its connection is closed without a
// word to it.
func TestClosesTLSAtOnce(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	server.Close()
	certificates := server.TLS.Certificates
	synctest.Test(t, func(t *testing.T) {
		limit, q := New(1), make(queue, 1)
		ours, theirs := net.Pipe()
		silent := tls.Server(ours, &tls.Config{Certificates: certificates, SessionTicketsDisabled: true})
		go tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}).Handshake()
		if err := silent.Handshake(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, c := range []net.Conn{silent, new(conn)} {
			q <- c
			if got, err := limit.Listener(q).Accept(); got != c || err != nil {
				t.Fatalf("accepted %v, %v", got, err)
			}
		}
		if took := time.Since(began); took > moment {
			t.Errorf("the next client waited %v", took)
		}
		if _, err := ours.Write([]byte("x")); err == nil {
			t.Error("the silent client's connection is open")
		}
	})
}

// A connection stays open for a moment in which its client can say who it is. Meanwhile new ones
// wait, and the first that closes makes room at once. The moment is shorter if most connections are
// busy, so that as many as there may be are always accepted in one.
func TestMomentOfNewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		limit, q := New(most), make(queue, 3*most)
		l := limit.Listener(q)
		accept := func() (c *conn, waited time.Duration) {
			c = new(conn)
			q <- c
			begin := time.Now()
			if got, err := l.Accept(); got != c || err != nil {
				t.Fatalf("accepted %v, %v", got, err)
			}
			return c, time.Since(begin)
		}
		var all []*conn
		for range most {
			c, _ := accept()
			all = append(all, c)
		}
		if _, waited := accept(); waited != moment || !all[0].closed {
			t.Errorf("the next waited %v, want %v; the first is closed: %t", waited, moment, all[0].closed)
		}
		limit.Admit(all[1])
		time.Sleep(moment)
		for range most - 1 {
			accept()
		}
		go func() {
			time.Sleep(moment / 3)
			limit.ConnState(all[1], http.StateClosed)
		}()
		if _, waited := accept(); waited != moment/3 {
			t.Errorf("after another one closed the next waited %v", waited)
		}

		time.Sleep(moment)
		for range most - 1 {
			c, _ := accept()
			limit.Admit(c)
		}
		accept()
		if _, waited := accept(); waited != moment/most {
			t.Errorf("with one connection that is not busy, the next waited %v, want %v", waited, moment/most)
		}
	})
}

// All strangers together take a third of the memory limit at most.
func TestStrangersWithinMemory(t *testing.T) {
	for _, memory := range []int64{1 << 20, 64 << 20, 410 << 20, 2 << 30, math.MaxInt64} {
		n := strangersWithin(memory)
		if n < least || n > mostStrangers || n > least && int64(n)*bytesOfStranger > memory/3 {
			t.Errorf("%d strangers in %d bytes", n, memory)
		}
	}
	if n := strangersWithin(math.MaxInt64); n != mostStrangers {
		t.Errorf("%d strangers in memory without a limit", n)
	}
}

// Where memory is short there are fewer connections, however many descriptors there may be.
func TestConnectionsWithinMemory(t *testing.T) {
	const memory = 20 * bytesOfConnection
	old := debug.SetMemoryLimit(memory)
	limit := New(0)
	debug.SetMemoryLimit(old)
	if limit.Most() != 20 {
		t.Errorf("%d connections in %d bytes", limit.Most(), memory)
	}
}

// However many connections there may be, few are those of strangers: the oldest of them is closed for a new
// one, not at once, and no connection on which somebody was admitted.
func TestMostStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, q := New(1000), make(queue, 1)
		limit.mostFresh, limit.grace = 2, strangerMoment
		l := limit.Listener(q)
		accept := func() *conn {
			c := new(conn)
			q <- c
			l.Accept()
			return c
		}
		known, idle := accept(), accept()
		limit.Admit(known)
		limit.Admit(idle)
		limit.ConnState(idle, http.StateIdle)
		begin := time.Now()
		first, second := accept(), accept()
		if time.Since(begin) > 0 {
			t.Errorf("two strangers after %v", time.Since(begin))
		}
		third := accept()
		if !first.closed || second.closed || time.Since(begin) != strangerMoment {
			t.Errorf("the first is closed: %t, the second: %t, after %v", first.closed, second.closed, time.Since(begin))
		}
		limit.ConnState(second, http.StateClosed)
		limit.Admit(third)
		accept()
		accept()
		if known.closed || idle.closed || third.closed || limit.fresh.Len() != 2 || len(limit.isNew) != 2 || time.Since(begin) != strangerMoment {
			t.Errorf("%d strangers are left, after %v", limit.fresh.Len(), time.Since(begin))
		}
	})
}
