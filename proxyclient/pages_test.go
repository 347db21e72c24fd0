package proxyclient

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Pools follows the pages, and joins a pool that goes on in the next one. A server
// that always has another page is not followed for ever.
func TestPoolsInPages(t *testing.T) {
	endless := false
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch after := r.URL.Query().Get("after"); {
		case endless:
			fmt.Fprintf(w, `{"pools":[{"type":"t%d"}],"next":"n"}`, asked)
		case after == "":
			io.WriteString(w, `{"pools":[{"type":"a"},{"type":"b","leases":[{"name":"b-0"}]}],"next":"1.2 &b"}`)
		case after == "1.2 &b":
			io.WriteString(w, `{"pools":[{"type":"b","leases":[{"name":"b-1"}],"waiters":[{"place":1}]}],"next":"x"}`)
		default:
			io.WriteString(w, `{"pools":[{"type":"b","leases":[],"waiters":[{"place":2}]},{"type":"c"}]}`)
		}
	}))
	defer srv.Close()
	c, err := New(Options{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pools, err := c.Pools(t.Context())
	if err != nil || len(pools) != 3 || len(pools[1].Leases) != 2 || len(pools[1].Waiters) != 2 || pools[1].Leases[1].Name != "b-1" {
		t.Errorf("pools %+v, %v", pools, err)
	}
	endless, asked = true, 0
	if pools, err := c.Pools(t.Context()); err != nil || len(pools) != maxPages || asked != maxPages {
		t.Errorf("%d pools in %d pages, %v", len(pools), asked, err)
	}
}
