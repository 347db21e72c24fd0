package proxyclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/leaseapi"
)

// recording records each request to its handler.
type recording struct {
	http.Handler
	seen []string
}

func (h *recording) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	h.seen = append(h.seen, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL, body)))
	h.Handler.ServeHTTP(w, r)
}

// A client that asks for a lease alone asks nothing before, whatever the proxy is: these are its
// requests, byte for byte.
func TestPlainRequests(t *testing.T) {
	request := Request{Ask: leaseapi.Ask{Type: "t"}, Owner: "me", RequestID: "R", TTL: time.Hour, Wait: time.Minute}
	acquired := "POST /lease/acquire?ask=" + url.QueryEscape(`{"type":"t","request_id":"R","owner":"me","ttl":"1h0m0s","wait":"1m0s"}`) + "&type=t"
	for name, tt := range map[string]struct {
		proxy http.Handler
		want  []string
	}{
		"version 1": {newVersion1(t, "a"), []string{acquired, `POST /lease/release {"names":["a"],"owner":"me"}`}},
		"ours":      {&ours{}, nil},
		"counted":   {&ours{units: 512}, nil},
	} {
		if s, ok := tt.proxy.(*ours); ok {
			units := s.units
			*s = *newOurs(t, "a")
			s.units = units
			tt.want = []string{acquired,
				`POST /lease/renew {"leases":[{"name":"a","generation":1001}]}`,
				`POST /lease/release {"leases":[{"name":"a","generation":1001}]}`}
		}
		bubble(t, name, func(t *testing.T) {
			h := &recording{Handler: tt.proxy}
			c, _ := serve(t, h)
			g, err := c.Acquire(t.Context(), request)
			want(t, err)
			if g.Capabilities == Ours {
				_, err = c.Renew(t.Context(), g.Leases, 0)
				want(t, err)
			}
			_, err = c.Release(t.Context(), Releasing(g.Leases, "me"))
			want(t, err)
			if got := strings.Join(h.seen, "\n"); got != strings.Join(tt.want, "\n") {
				t.Errorf("sent\n%s, want\n%s", got, strings.Join(tt.want, "\n"))
			}
		})
	}
}

// A count is a number of names of a listed pool, or of units of one lease of a counted
// pool.
func TestCountOfUnits(t *testing.T) {
	for _, tt := range []struct {
		units, count int
		ok           bool
	}{{0, 1, true}, {0, 2, true}, {7, 7, true}, {7, 6, false}, {7, 0, true}, {7, 1, false}, {-7, 0, false}} {
		bubble(t, fmt.Sprintf("%d of %d", tt.count, tt.units), func(t *testing.T) {
			s := newOurs(t, "a", "b")
			s.units = tt.units
			if s.units < 0 {
				s.free = s.free[:1]
			}
			c, _ := serve(t, s)
			g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: tt.count}, Wait: time.Minute})
			if (err == nil) != tt.ok {
				t.Fatalf("got %+v, %v", g, err)
			}
			if held, _ := s.state(); err != nil && held != 0 {
				t.Error("what cannot be used is still held")
			}
		})
	}
}

// A refusal has the state of the queue, in one answer and without queueing.
func TestRefusalTells(t *testing.T) {
	const body = `{"type":"urn:leasectl:problem:exhausted","title":"nothing is free","status":503,
		"queued":{"place":3,"length":3,"in_use":8,"capacity":8,"estimate":"4m0s","estimate_max":"9m0s","oldest":{"name":"a\u001b","owner":"o"}}}`
	bubble(t, "", func(t *testing.T) {
		c, m := serve(t, newOurs(t), fault{status: 503, body: body, header: http.Header{
			"Content-Type": {leaseapi.ContentTypeProblem}, "Retry-After": {"240"}}})
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t"}})
		want(t, err, ErrExhausted)
		var e *ExhaustedError
		if !errors.As(err, &e) || e.Last == nil || e.Last.Place != 3 || e.Last.Oldest.Name != "a" {
			t.Errorf("error %+v", e)
		}
		if m.dials != 1 || time.Since(start) > time.Second {
			t.Errorf("%d dials in %s", m.dials, time.Since(start))
		}
	})
}

// Each answer to a resize, and a lost answer.
func TestResize(t *testing.T) {
	request := leaseapi.ResizeRequest{Name: "a", Generation: 7, From: 512, Count: 1536}
	said := func(status int, typ string) fault {
		return fault{status: status, body: `{"type":"` + typ + `","detail":"why","need":1024,"free":512,"held":928,"resizes":3}`,
			header: http.Header{"Content-Type": {leaseapi.ContentTypeProblem}}}
	}
	done := fault{status: 200, body: `{"units":1536,"resizes":3}`}
	grown, asBefore := leaseapi.ResizeReply{Units: 1536, Resizes: 3}, leaseapi.ResizeReply{Units: 928, Resizes: 3}
	var none leaseapi.ResizeReply
	for name, tt := range map[string]struct {
		faults []fault
		want   error
		text   string
		now    leaseapi.ResizeReply
	}{
		"done":        {[]fault{done}, nil, "", grown},
		"lost answer": {[]fault{lostRequest, done}, nil, "", grown},
		"no room":     {[]fault{said(409, leaseapi.ProblemNoRoom)}, ErrNoRoom, "resize: need 1024 more, 512 free; 928 stay held", asBefore},
		"too many":    {[]fault{said(400, leaseapi.ProblemTooMany)}, ErrTooMany, "resize: why", asBefore},
		"listed":      {[]fault{said(409, leaseapi.ProblemNotCounted)}, ErrNotCounted, "resize: why", none},
		"lost lease":  {[]fault{said(410, leaseapi.ProblemLost)}, ErrLost, "", none},
		"nonsense":    {[]fault{{status: 200, body: `<p>log in`}}, errAny, "", none},
	} {
		bubble(t, name, func(t *testing.T) {
			c, m := serve(t, nil, tt.faults...)
			now, err := c.Resize(t.Context(), request)
			if (err == nil) != (tt.want == nil) || tt.want != errAny && !errors.Is(err, tt.want) || now != tt.now {
				t.Errorf("got %+v, %v, want %+v", now, err, tt.now)
			}
			if tt.text != "" && err.Error() != tt.text {
				t.Errorf("error %q, want %q", err, tt.text)
			}
			if m.dials != len(tt.faults) {
				t.Errorf("%d dials, want %d", m.dials, len(tt.faults))
			}
		})
	}
	bubble(t, "stale", func(t *testing.T) {
		c, _ := serve(t, nil, said(409, leaseapi.ProblemStale))
		_, err := c.Resize(t.Context(), request)
		if stale, ok := errors.AsType[*StaleError](err); !ok || stale.Held != 928 {
			t.Errorf("error %v", err)
		}
	})
}

// A refusal whose answer was lost is asked for again, and is no resize by another.
func TestLostRefusalOfAResize(t *testing.T) {
	for name, room := range map[string]bool{"still no room": false, "room by now": true} {
		bubble(t, name, func(t *testing.T) {
			server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{{Type: "t", Units: 10}}})
			want(t, err)
			t.Cleanup(func() { server.Close() })
			c, m := serve(t, server, fault{}, fault{})
			lease, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 4}})
			want(t, err)
			other, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 5}})
			want(t, err)
			l := lease.Leases[0]
			m.add(lostAnswer)
			if room {
				m.h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					server.ServeHTTP(w, r)
					if r.URL.Path == leaseapi.PathResize {
						body := `{"leases":[{"name":"` + other.Leases[0].Name + `","generation":` + strconv.FormatUint(other.Leases[0].Generation, 10) + `}]}`
						server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://localhost"+leaseapi.PathRelease, strings.NewReader(body)))
					}
				})
			}
			reply, err := c.Resize(t.Context(), leaseapi.ResizeRequest{Name: l.Name, Generation: l.Generation, From: 4, After: new(int), Count: 8})
			wanted := leaseapi.ResizeReply{Units: 4, Resizes: 2}
			if room {
				wanted.Units = 8
			}
			if errors.Is(err, ErrNoRoom) == room || room && err != nil || reply != wanted {
				t.Errorf("%+v, %v, want %+v", reply, err, wanted)
			}
		})
	}
}
