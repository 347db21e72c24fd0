package proxyserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// The server does not wait for clients that connect and say nothing: not in the handshake of
// TLS, not before a first request, and not for long after one.
func TestSilentClients(t *testing.T) {
	for _, c := range []struct {
		name   string
		secure bool
		says   string
		most   time.Duration
	}{
		{"handshake", true, "", 10 * time.Second},
		{"half a handshake", true, "\x16\x03\x01\x02\x00", 10 * time.Second},
		{"no request", false, "", 10 * time.Second},
		{"half a request", false, "GET /healthz HTTP/1.1\r\nHost: x\r\n", 10 * time.Second},
		{"after a request", false, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := New(Options{Pools: []pool.Config{quota(1)}})
				if err != nil {
					t.Fatal(err)
				}
				l := newPipes()
				ctx, cancel := context.WithCancel(t.Context())
				served := make(chan error)
				go func() {
					if c.secure {
						served <- s.Serve(ctx, tls.NewListener(l, &tls.Config{
							GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") },
						}))
					} else {
						served <- s.Serve(ctx, l)
					}
				}()
				client, err := l.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				go io.WriteString(client, c.says)
				io.Copy(io.Discard, client) // until the server closes
				if took := time.Since(begin); took < c.most || took > c.most+time.Second {
					t.Errorf("the server waited for %v, want %v", took, c.most)
				}
				client.Close()
				cancel()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The server does not wait for a client that does not read its answer, be it the first answer
// or one on a connection that has been used. A client that waits in the queue for longer than
// an answer may take gets its answer.
func TestAnswersThatNobodyReads(t *testing.T) {
	const get = "GET /pools HTTP/1.1\r\nHost: x\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.acquire("type=q")
		for _, pause := range []time.Duration{0, time.Second, writeTime * 3 / 2} { // since the answer before; 0: the first answer
			client, err := p.pipes.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(client)
			if pause > 0 {
				io.WriteString(client, get)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				time.Sleep(pause)
			}
			io.WriteString(client, get)
			begin := time.Now()
			time.Sleep(writeTime - time.Second)
			synctest.Wait()
			if n := p.server.handler.connections.Stats().Open; n != 1 {
				t.Errorf("%d connections before the time is over", n)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n := p.server.handler.connections.Stats().Open; n != 0 {
				t.Errorf("after %v the client that does not read is still connected", time.Since(begin))
			}
			client.Close()
		}
		waits := p.later(t.Context(), "type=q")
		time.Sleep(time.Hour)
		p.release(`{"names":["q-0"]}`)
		if r := <-waits; r.status != 200 {
			t.Errorf("after an hour in the queue: %d %s", r.status, r.body)
		}
	})
}

// With more idle connections than there may be, a new client finds room at once, and waiting
// clients keep their connections.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}, maxConnections: 4})
		p.acquire("type=q")
		waits := p.later(t.Context(), "type=q")
		synctest.Wait()
		var idle []net.Conn
		for range 20 {
			c, err := p.pipes.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, c)
		}
		synctest.Wait()
		if n := p.server.handler.connections.Stats().Open; n != 4 {
			t.Errorf("%d connections, want 4", n)
		}
		begin := time.Now()
		p.release(`{"names":["q-0"]}`)
		if r := <-waits; r.status != 200 || time.Since(begin) > 0 {
			t.Errorf("the waiter got %d %s after %v", r.status, r.body, time.Since(begin))
		}
		for _, c := range idle {
			c.Close()
		}
	})
}

// When all connections wait, a client that ends a wait still finds room. So does a client that
// would wait: without an id it is refused, with an id it waits a second at a time.
func TestWaitersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4
		p := start(t, Options{Pools: []pool.Config{quota(1)}, maxConnections: most})
		p.acquire("type=q")
		var waits []<-chan reply
		for range most {
			waits = append(waits, p.later(t.Context(), "type=q&wait=1h"))
			synctest.Wait()
		}
		if r := p.acquire("type=q"); r.status != 503 || !strings.Contains(r.body, leaseapi.TextExhausted) {
			t.Errorf("without an id: %d %s", r.status, r.body)
		}
		begin := time.Now()
		if r := p.acquire("type=q&request_id=r"); r.status != 202 || time.Since(begin) != crowdedSlice {
			t.Errorf("with an id: %d %s after %v", r.status, r.body, time.Since(begin))
		}
		for range most {
			if r := p.release(`{"names":["q-0"]}`); r.status != 204 {
				t.Errorf("release: %d %s", r.status, r.body)
			}
			synctest.Wait()
		}
		for _, w := range waits {
			if r := <-w; r.status != 200 {
				t.Errorf("a waiter got %d %s", r.status, r.body)
			}
		}
	})
}
