package proxyserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// Whoever connects and says nothing is not waited for: not in the handshake of
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
