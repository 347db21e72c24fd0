package proxyclient

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// BenchmarkPair is one acquire and release over loopback: by our client, and by the
// minimum that net/http needs.
func BenchmarkPair(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != leaseapi.PathAcquire {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, `{"released":["a"]}`)
			return
		}
		io.WriteString(w, `{"names":["a"],"leases":[{"name":"a","generation":1}],"ttl":"5m0s","renew_every":"1m40s","request_id":"`+
			wiretest.Asked(r).RequestID+`"}`)
	}))
	defer srv.Close()
	b.Run("client", func(b *testing.B) {
		c, err := New(Options{URL: srv.URL})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		b.ReportAllocs()
		for b.Loop() {
			g, err := c.Acquire(b.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Owner: "job", Wait: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := c.Release(b.Context(), Releasing(g.Leases, "job")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		c := srv.Client()
		defer c.CloseIdleConnections()
		post := func(path, body string) {
			r, err := c.Post(srv.URL+path, "application/json", strings.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		b.ReportAllocs()
		for b.Loop() {
			post(leaseapi.PathAcquire+"?type=t", "")
			post(leaseapi.PathRelease, `{"names":["a"]}`)
		}
	})
}
