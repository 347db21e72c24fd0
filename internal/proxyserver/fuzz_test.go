package proxyserver

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// fuzzed is a server in memory that gets any input. Whatever the input, the server answers in a
// form that clients know, grants no more than there is, and goes on.
type fuzzed struct {
	t      *testing.T
	server *Server
	token  string
}

func newFuzzed(t *testing.T, may *auth.Config) *fuzzed {
	s, err := New(Options{Pools: []pool.Config{quota(3), {Type: "one", Names: []string{"x"}, MaxWaiters: 1, MaxTTL: time.Hour}}, Auth: may})
	if err != nil {
		t.Fatal(err)
	}
	return &fuzzed{t: t, server: s}
}

// send sends a request whose client leaves when it would have to wait.
func (f *fuzzed) send(method, target, body string) *httptest.ResponseRecorder {
	target = wiretest.Target(target)
	u, err := url.ParseRequestURI(target)
	if err != nil {
		f.t.Skip("no server sees such a target")
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body)).WithContext(gone)
	r.Method, r.URL, r.RequestURI = method, u, target
	if f.token != "" {
		r.Header.Set("Authorization", "Bearer "+f.token)
	}
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	f.check(w)
	return w
}

func (f *fuzzed) check(w *httptest.ResponseRecorder) {
	f.t.Helper()
	kind, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	switch {
	case kind == "" && w.Body.Len() > 0 || w.Code == 503 && w.Header().Get("Retry-After") == "":
		f.t.Errorf("%d without a content type or Retry-After: %s", w.Code, w.Body)
	case kind == leaseapi.ContentTypeProblem:
		var pr leaseapi.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &pr); err != nil || pr.Status != w.Code || titles[pr.Type] == "" {
			f.t.Errorf("%d: %v: %s", w.Code, err, w.Body)
		}
	case kind == "application/json":
		if !json.Valid(w.Body.Bytes()) || w.Code/100 != 2 {
			f.t.Errorf("%d %s", w.Code, w.Body)
		}
	case kind == "text/plain" && w.Code/100 == 2 && !strings.HasPrefix(w.Body.String(), "# HELP"):
		f.t.Errorf("%d %s", w.Code, w.Body)
	}
	s := f.server
	s.term.mu.Lock()
	defer s.term.mu.Unlock()
	if s.term.haltErr != nil {
		f.t.Errorf("the server has closed: %v", s.term.haltErr)
	}
	for _, p := range s.term.set.Totals(0) {
		if leases := s.term.set.Leases(0, p.Type, 0, p.InUse+1); p.InUse > p.Capacity || p.InUse != len(leases) {
			f.t.Errorf("%+v, %+v", p, leases)
		}
	}
	if len(s.term.waiting) > 0 {
		f.t.Errorf("%d waiters are left without a client", len(s.term.waiting))
	}
}

func FuzzAcquire(f *testing.F) {
	for _, query := range []string{
		"type=q", "type=q&count=2", "type=q&count=0", "type=q&count=-1", "type=q&count=99999999999999999999", "type=", "type=zzz", "count=1",
		"type=q&request_id=r&owner=me&ttl=5m&wait=1h", "type=q&request_id=r&wait=0", "type=one&request_id=%00", "type=q&owner=%ff", "type=q&ttl=-1s",
		"type=q&ttl=9223372036s", "type=q&wait=2562047h47m16.854775807s", "type=q;count=2", "type=q&type=one", "%", "type=q&request_id=", "type=%0a%22",
	} {
		f.Add(query, "")
		f.Add(query, "a body")
	}
	f.Fuzz(func(t *testing.T, query, body string) {
		s := newFuzzed(t, nil)
		target := "/lease/acquire?" + query
		s.send("POST", target, body)
		s.send("POST", target, body) // the same again, and then its leases are given back
		values, _ := url.ParseQuery(query)
		id, _ := json.Marshal(values.Get("request_id"))
		s.send("POST", "/lease/release", `{"request_ids":[`+string(id)+`]}`)
		s.send("POST", target, "")
	})
}

// Release, renew and break of leases that exist, and of others.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"names":["q-0","x"]}`, `{"names":["q-0"],"owner":"me","delay":"20m"}`, `{"names":["zzz"]}`, `{"names":null}`, `{}`, `[]`, `null`, ``, `{"names":["q-0"]} {}`,
		`{"leases":[{"name":"q-0","generation":1}],"ttl":"5m"}`, `{"leases":[{"name":"q-0"}]}`, `{"leases":[{"generation":18446744073709551616}]}`,
		`{"request_ids":["held","queued","new"]}`, `{"request_ids":["held"],"delay":"1s"}`, `{"delay":"-1s"}`, `{"delay":"9223372036854775807ns","names":["q-0"]}`, `{"ttl":"1ns"}`,
		`{"name":"q-0","reason":"x"}`, `{"name":"q-0","reason":"x","now":true}`, `{"name":"zzz","reason":"x"}`, `{"name":"q-1","reason":"x","generation":7}`, `{"reason":"\u0000","name":"q-0"}`,
		`{"names":["\ud800"]}`, `{"NAMES":["q-0"]}`, strings.Repeat("[", 20_000),
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := newFuzzed(t, nil)
		s.send("POST", "/lease/acquire?type=q&request_id=held&owner=me&count=2", "")
		for _, path := range []string{leaseapi.PathRenew, leaseapi.PathBreak, leaseapi.PathRelease} {
			s.send("POST", path, body)
			s.send("POST", path, body)
		}
		s.send("GET", "/pools", "")
		s.send("GET", "/metrics", "")
	})
}

func FuzzPaths(f *testing.F) {
	for path := range routes {
		f.Add("GET", path)
		f.Add("POST", path)
	}
	for _, target := range []string{"/", "//", "/lease/requests/", "/lease/requests/held", "/lease/requests/%00", "/lease/requests/a%2fb?x", "/lease/acquire/", "/../pools", "*", "http://x/pools", "/pools?%zz"} {
		f.Add("GET", target)
		f.Add("DELETE", target)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		s := newFuzzed(t, nil)
		s.send("POST", "/lease/acquire?type=q&request_id=held", "")
		s.send(method, target, "")
	})
}

// With tokens in use, a request with no token or a wrong one changes nothing.
func FuzzWithoutToken(f *testing.F) {
	f.Add("POST", "/lease/release", `{"names":["q-0"]}`, "")
	f.Add("POST", "/lease/release", `{"request_ids":["held"]}`, "b-token-0123456789")
	f.Add("POST", "/lease/renew", `{"leases":[{"name":"q-0","generation":1}]}`, "b-token-0123456789")
	f.Add("POST", "/lease/break", `{"name":"q-0","reason":"x","now":true}`, "b-token-0123456789")
	f.Add("POST", "/lease/acquire?type=q&request_id=held&owner=me", "", "wrong")
	f.Add("GET", "/pools", "", "r-token-0123456789 ")
	tokens, err := config.ParseTokens("t", []byte(tokenFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, target, body, token string) {
		if strings.TrimSpace(token) == "r-token-0123456789" || strings.TrimSpace(token) == "r-second-0123456789" || strings.TrimSpace(token) == "o-token-0123456789" {
			return // the token of the holder, or of an admin
		}
		s := newFuzzed(t, &auth.Config{Tokens: tokens})
		s.token = "r-token-0123456789"
		s.send("POST", "/lease/acquire?type=q&request_id=held&owner=me", "")
		held := func() pool.Lease {
			s.server.term.mu.Lock()
			defer s.server.term.mu.Unlock()
			return s.server.term.set.Leases(0, "q", 0, 1)[0]
		}
		before := held()
		s.token = token
		s.send(method, target, body)
		if after := held(); after != before {
			t.Errorf("%s %s %s with token %q: %+v is %+v", method, target, body, token, before, after)
		}
	})
}
