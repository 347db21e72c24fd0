package proxyclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

func TestQueries(t *testing.T) {
	bubble(t, "ours", func(t *testing.T) {
		s := newOurs(t)
		s.grants["granted"] = leases
		s.queue = []*waiter{{id: "queued"}}
		c, _ := serve(t, s, badGateway, dialRefused)
		h, err := c.Health(t.Context())
		want(t, err)
		pools, err := c.Pools(t.Context())
		want(t, err)
		if h.Wire != leaseapi.Wire || len(pools) != 1 || pools[0].Leases[0].Owner != "job [2J" || pools[0].Leases[0].Broken != "job [2J" {
			t.Errorf("got %+v, %+v", h, pools)
		}
		for id, state := range map[string]string{"granted": leaseapi.StateGranted, "queued": leaseapi.StateQueued} {
			r, err := c.RequestState(t.Context(), id)
			want(t, err)
			if r.State != state {
				t.Errorf("%s: %+v", id, r)
			}
		}
		_, err = c.RequestState(t.Context(), "unknown")
		want(t, err, ErrUnknownRequest)
		if !c.isOurs() {
			t.Error("not taken for ours")
		}
	})
	ask := map[string]func(t *testing.T, c *Client) error{
		"health":  func(t *testing.T, c *Client) error { _, err := c.Health(t.Context()); return err },
		"pools":   func(t *testing.T, c *Client) error { _, err := c.Pools(t.Context()); return err },
		"request": func(t *testing.T, c *Client) error { _, err := c.RequestState(t.Context(), "id"); return err },
	}
	for name, ask := range ask {
		bubble(t, name+" of version 1", func(t *testing.T) {
			c, _ := serve(t, newVersion1(t))
			want(t, ask(t, c), errors.ErrUnsupported)
		})
		bubble(t, name+" refused", func(t *testing.T) {
			c, m := serve(t, newVersion1(t), status(403))
			if err := ask(t, c); err == nil || errors.Is(err, errors.ErrUnsupported) || m.dials != 1 {
				t.Errorf("after %d requests: %v", m.dials, err)
			}
		})
		bubble(t, name+" of nobody", func(t *testing.T) {
			c, m := serve(t, newVersion1(t))
			m.Close()
			start := time.Now()
			want(t, ask(t, c), ErrUnreachable)
			if d := time.Since(start); d < maxRefused || d > maxRefused+maxPause {
				t.Errorf("took %s", d)
			}
		})
	}
	bubble(t, "an id that is a path", func(t *testing.T) {
		c, m := serve(t, newOurs(t))
		if _, err := c.RequestState(t.Context(), "../pools"); err == nil || m.dials != 0 {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "something else's answer to a request", func(t *testing.T) {
		c, _ := serve(t, newOurs(t), garbage, htmlPage)
		_, err := c.RequestState(t.Context(), "id")
		want(t, err, ErrUnknownRequest)
	})
	bubble(t, "version 1 that takes POST requests only", func(t *testing.T) {
		c, _ := serve(t, nil, status(405))
		_, err := c.RequestState(t.Context(), "id")
		want(t, err, errors.ErrUnsupported)
	})
	bubble(t, "another's health", func(t *testing.T) {
		for _, body := range []string{`{"status":"ok"}`, "ok", "<html>"} {
			c, _ := serve(t, nil, fault{status: 200, body: body})
			_, err := c.Health(t.Context())
			want(t, err, errors.ErrUnsupported)
		}
	})
	bubble(t, "another request's state first", func(t *testing.T) {
		other := fault{status: 200, body: `{"request_id":"other","state":"granted","type":"u","owner":"job-2","leases":[{"name":"a","generation":7}]}`}
		c, _ := serve(t, nil, other, fault{status: 200, body: `{"request_id":"id","state":"queued"}`})
		r, err := c.RequestState(t.Context(), "id")
		want(t, err)
		if !reflect.DeepEqual(r, leaseapi.RequestReply{RequestID: "id", State: leaseapi.StateQueued}) {
			t.Errorf("the state has what another answer said: %+v", r)
		}
	})
	bubble(t, "the page of a login", func(t *testing.T) {
		c, _ := serve(t, nil, htmlPage, htmlPage)
		_, err := c.Pools(t.Context())
		want(t, err, errors.ErrUnsupported)
		if !strings.Contains(err.Error(), "an HTML or XML page: it is no lease proxy, or of version 1, which has no /pools") {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "another's 404", func(t *testing.T) {
		foreign := func(typ string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				problem(w, 404, leaseapi.Problem{Type: typ})
			})
		}
		c, _ := serve(t, foreign("about:blank"))
		_, err := c.RequestState(t.Context(), "id")
		want(t, err, errors.ErrUnsupported)
		if c.known() != Unknown {
			t.Error("taken for ours")
		}
		c, _ = serve(t, foreign(leaseapi.ProblemNotFound))
		if _, err := c.Pools(t.Context()); err == nil || errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("one of ours that lacks the path: %v", err)
		}
	})
}

// The error texts for people have all known facts.
func TestErrors(t *testing.T) {
	q := &leaseapi.Queued{Place: 4, Length: 12, InUse: 32, Capacity: 32}
	exhausted := &ExhaustedError{Type: "x", Wait: time.Hour, Last: q}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{exhausted, `no lease of type "x" within 1h0m0s (place 4 of 12, 32 of 32 in use)`},
		{&ExhaustedError{Type: "x", Wait: time.Hour, Last: &leaseapi.Queued{Place: 1, Length: 1, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitKey, By: "job-1"}, InUse: 1, Capacity: 4}}, `no lease of type "x" within 1h0m0s (place 1 of 1, key held by job-1, 1 of 4 in use)`},
		{&ExhaustedError{Type: "x", Wait: time.Hour}, `no lease of type "x" within 1h0m0s`},
		{&ExhaustedError{Type: "x"}, `no lease of type "x" is free`},
		{&UnconfirmedError{RequestID: "id", Type: "x", Count: 2, Err: exhausted}, exhausted.Error() + `; request id is unconfirmed: up to 2 of type "x" may be held`},
		{&UnconfirmedError{RequestID: "id", Type: "x", Names: []string{"a", "b"}, Err: ErrEnded}, `request has ended; request id is unconfirmed: could not give back "a", "b"`},
		{&LostError{}, "lease lost: not renewed in time"},
	} {
		if tt.err.Error() != tt.want || strings.Contains(tt.want, "\n") {
			t.Errorf("error %q, want %q", tt.err, tt.want)
		}
	}
	want(t, &UnconfirmedError{Err: exhausted}, ErrUnconfirmed, ErrExhausted)
}

// Pools follows the pages, and joins a pool that continues on the next page. Pools fails
// after maxPages at a server that always has another page: a part of the pools would say
// that nobody holds the leases of the rest.
func TestPoolsInPages(t *testing.T) {
	endless, large := false, `"waiting":1`
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch after := r.URL.Query().Get("after"); {
		case endless:
			fmt.Fprintf(w, `{"pools":[{"type":"t%d",%s}],"next":"n"}`, asked, large)
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
	if pools, err := c.Pools(t.Context()); err == nil || len(pools) != 0 || asked != maxPages {
		t.Errorf("%d pools in %d pages, %v", len(pools), asked, err)
	}
	large, asked = `"paused":"`+strings.Repeat("x", 1<<19)+`"`, 0 // few pages, and much in each
	if pools, err := c.Pools(t.Context()); err == nil || len(pools) != 0 || asked != maxPaged>>19 {
		t.Errorf("%d pools in %d large pages, %v", len(pools), asked, err)
	}
	for _, list := range []string{"names", "leases", "waiters", "reservations", "tally"} { // of nothings, which take memory all the same
		large, asked = `"`+list+`":[`+strings.Repeat("{},", 9_999)+`{}]`, 0
		if pools, err := c.Pools(t.Context()); err == nil || len(pools) != 0 || asked > 1+maxPaged/(10_000*leastListed) {
			t.Errorf("%d pools in %d pages of %s, %v", len(pools), asked, list, err)
		}
	}
}

// Who breaks a lease that ends just then is told so, and gets the same error as for a lease
// that nobody held before.
func TestBreakOfALeaseThatEnds(t *testing.T) {
	ended := fault{
		status: 409, header: http.Header{"Content-Type": {leaseapi.ContentTypeProblem}},
		body: `{"type":"` + leaseapi.ProblemNotHeld + `","detail":"the lease of \"a\" with generation 1 has ended (released)"}`,
	}
	c, _ := serve(t, newOurs(t), fault{}, ended)
	_, err := c.Break(t.Context(), "a", "drill", true)
	want(t, err, ErrNotHeld)
	if err.Error() != `break: the lease of "a" with generation 1 has ended (released)` {
		t.Errorf("error %v", err)
	}
}
