package proxyserver

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
	"github.com/leasectl/leasectl/leaseapi"
)

// A server without tokens refuses requests that a page of another origin can send in a
// browser. It serves those of clients and of its own pages.
func TestNotFromABrowser(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, Options{Pools: []pool.Config{quota(1)}, Hosts: []string{"Leases.test"}}, l)
	here := l.Addr().String()
	ask := func(method, path, body, host string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+here+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	const release = `{"names":["q-0"]}`
	p.acquire("type=q")
	for _, header := range [][]string{
		{"Origin", "https://evil.example", "Content-Type", "text/plain"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
	} {
		for _, path := range []string{leaseapi.PathRelease, leaseapi.PathAcquire + "?type=q&wait=0s", leaseapi.PathBreak} {
			if status, text := ask("POST", path, release, here, header...); status != 403 || !strings.Contains(text, leaseapi.ProblemForbidden) {
				t.Errorf("%s with %v: %d %s", path, header, status, text)
			}
		}
	}
	if n := p.inUse(); n != 1 {
		t.Fatalf("%d in use: a page ended the lease", n)
	}
	port := here[strings.LastIndex(here, ":"):]
	for host, want := range map[string]int{
		"evil.example": 403, "evil.example" + port: 403, "127.0.0.1.evil.example": 403, "10.0.0.1": 403, "localhost.evil.example": 403,
		"localhost": 200, "LOCALHOST" + port: 200, here: 200, "127.0.0.9": 200, "[::1]" + port: 200, "leases.test" + port: 200, "localhost.": 200,
	} {
		for _, path := range []string{"/pools", "/metrics", "/healthz"} {
			if status, text := ask("GET", path, "", host); status != want {
				t.Errorf("%s of host %s: %d %s", path, host, status, text)
			}
		}
	}
	// Not on loopback: on a pipe, any name may be the server's. In a browser it must be known, or
	// a page whose domain resolves to the server could call it.
	for host, want := range map[string]int{"evil.example": 403, "leases.test": 200} {
		for _, header := range []string{"Accept-Language", "Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode"} {
			req := httptest.NewRequestWithContext(t.Context(), "GET", "/pools", nil)
			req.Host = host
			value := map[string]string{"Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"}[header]
			req.Header.Set(header, cmp.Or(value, "en"))
			w := httptest.NewRecorder()
			p.server.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)})))
			if w.Code != want {
				t.Errorf("host %s in a browser that sends %s: %d %s", host, header, w.Code, w.Body)
			}
		}
	}
	if r := p.do("GET", "/pools", ""); r.status != 200 {
		t.Errorf("of another listener: %d %s", r.status, r.body)
	}
	if status, text := ask("POST", leaseapi.PathRelease, release, here, "Origin", "http://"+here, "Sec-Fetch-Site", "same-origin"); status != 204 {
		t.Errorf("a page of the server itself: %d %s", status, text)
	}

	tokens, err := config.ParseTokens("t", []byte("a secret-of-sixteen"))
	if err != nil {
		t.Fatal(err)
	}
	p.server.SetAuth(&auth.Config{Tokens: tokens}) // no page has a token
	if status, text := ask("POST", leaseapi.PathAcquire+"?type=q", "", "leases.example", "Authorization", "Bearer secret-of-sixteen", "Origin", "https://tool.example"); status != 200 {
		t.Errorf("with a token: %d %s", status, text)
	}
}

// A query with an invalid part is refused: without its id, a request could not be repeated.
func TestMalformedQuery(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	for _, query := range []string{"type=q&request_id=aa%zz", "type=q&request_id=a;b", "%=1&type=q"} {
		if pr := decode[leaseapi.Problem](t, p.acquire(query), 400); pr.Type != leaseapi.ProblemBadRequest {
			t.Errorf("%s: %+v", query, pr)
		}
	}
	if pr := decode[leaseapi.Problem](t, p.do("GET", "/pools?after=%zz", ""), 400); pr.Type != leaseapi.ProblemBadRequest {
		t.Errorf("pools: %+v", pr)
	}
	for _, body := range []string{`{"names":[""]}`, `{"names":["q-0",""],"owner":"me"}`} {
		if pr := decode[leaseapi.Problem](t, p.release(body), 400); pr.Detail != "a name is empty" {
			t.Errorf("%s: %+v", body, pr)
		}
	}
	if n := p.inUse(); n != 0 {
		t.Errorf("%d in use", n)
	}
}

// A request without an id waits no longer than MaxWait, whatever wait it names.
func TestWaitWithoutAnIDIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}, MaxWait: time.Minute})
		p.acquire("type=q")
		for wait, want := range map[string]time.Duration{"24h": time.Minute, "10s": 10 * time.Second} {
			begin := time.Now()
			if r := p.acquire("type=q&wait=" + wait); r.status != 503 || time.Since(begin) != want {
				t.Errorf("wait %s: %d %s after %v, want %v", wait, r.status, r.body, time.Since(begin), want)
			}
		}
	})
}
