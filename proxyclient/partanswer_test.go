package proxyclient

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// An answer that breaks off says no more than silence: a request that asks once, and got
// nothing else, did not reach the proxy.
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
	_, err = c.Acquire(t.Context(), Request{Type: "t", Count: 1})
	want(t, err, ErrUnreachable)
}
