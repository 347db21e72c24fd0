package proxyserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// A probe that connects and goes is no warning. A failed handshake is, but not each time: each
// kind has one warning a minute, the next says how many failures had none, and there are few
// kinds.
func TestHandshakesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logText)
		s, err := New(Options{Pools: []pool.Config{quota(1)}, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error)
		none := errors.New("none")
		go func() {
			served <- s.Serve(ctx, tls.NewListener(l, &tls.Config{
				GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, none },
			}))
		}()
		connect := func(says string) {
			client, err := l.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			if says != "" {
				io.WriteString(client, says)
				go io.Copy(io.Discard, client)
				synctest.Wait()
			}
			client.Close()
			synctest.Wait()
		}
		lines := func(has string) (n int) {
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, has) {
					n++
				}
			}
			return n
		}
		for range 5 {
			connect("")
			connect("\x16\x03\x01\x02\x00")
			connect("GET / HTTP/1.1\r\n\r\n")
			connect("nonsense")
		}
		if lines("handshake") != 3 || lines("unexpected EOF") != 1 || lines("client sent an HTTP request") != 1 || lines("does not look like a TLS handshake") != 1 {
			t.Errorf("%s", log)
		}
		time.Sleep(time.Minute)
		connect("nonsense")
		if lines("does not look like a TLS handshake") != 2 || lines("unlogged=12") != 1 {
			t.Errorf("after a minute: %s", log)
		}
		for i := range 2 * mostKinds {
			none = fmt.Errorf("kind %d", i)
			client, err := l.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			tls.Client(client, &tls.Config{ServerName: "x"}).HandshakeContext(t.Context())
			client.Close()
			synctest.Wait()
		}
		if lines("kind ") != mostKinds-1 {
			t.Errorf("of many kinds: %s", log)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
