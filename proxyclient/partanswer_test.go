package proxyclient

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// A truncated answer says no more than silence: an acquire without a wait that gets only
// such an answer is ErrUnreachable.
func TestPartOfAnAnswer(t *testing.T) {
	s := newOurs(t, "a")
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != leaseapi.PathAcquire {
			s.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "100")
		w.Write([]byte(`{"names":["a"`))
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	srv.Config.ErrorLog = discard
	srv.Start()
	defer srv.Close()
	c, err := New(Options{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
	want(t, err, ErrUnreachable)
}

// A gateway that speaks HTTP/1.0 passes on a part of an answer as if it were whole. Such a
// part proves nothing about the proxy: the client asks again, and does not take the proxy
// for version 1.
func TestPartThatSeemsWhole(t *testing.T) {
	whole := map[string]string{
		leaseapi.PathHealth: `{"status":"ok","wire":2}`,
		leaseapi.PathPools:  `{"pools":[{"type":"t","capacity":1}]}`,
		leaseapi.PathReport: `{"counts":true}`,
	}
	asked := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := whole[r.URL.Path]
		if asked[r.URL.Path]++; asked[r.URL.Path] == 1 {
			text = text[:len(text)/2]
		}
		io.WriteString(w, text)
	}))
	defer srv.Close()
	c, err := New(Options{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := c.Health(t.Context())
	want(t, err)
	if h.Wire != 2 {
		t.Errorf("the proxy speaks wire %d, want 2", h.Wire)
	}
	pools, err := c.Pools(t.Context())
	want(t, err)
	if len(pools) != 1 {
		t.Errorf("got %d pools, want 1", len(pools))
	}
	_, err = c.Report(t.Context(), leaseapi.ReportRequest{RequestID: "r", Outcome: leaseapi.OutcomeOK})
	want(t, err)
}
