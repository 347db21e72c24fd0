package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Names that must not get into a handle are an error, and all leases of the grant are
// given back.
func TestHostileNames(t *testing.T) {
	long := strings.Repeat("x", leaseapi.MaxName+1)
	for _, tt := range []struct {
		names string // JSON
		bad   bool
	}{
		{`["a"]`, false},
		{`["us-east-1--ü_quota"]`, false},
		{`["` + long[1:] + `"]`, false},
		{`[""]`, true},
		{`["a b"]`, true},
		{`["a\nb"]`, true},
		{`["a\u0000"]`, true},
		{`["a\u001b[2J"]`, true},
		{`["a\u0085b"]`, true},
		{`["../a"]`, true},
		{"[\"a\xff\"]", true},
		{`["\ud800"]`, true},
		{`["` + long + `"]`, true},
		{`[]`, true},
		{`["a","b"]`, true},
	} {
		bubble(t, "version 1/"+tt.names[:min(20, len(tt.names))], func(t *testing.T) {
			v := newVersion1(t, "a")
			v.reply = `{"names":` + tt.names + `}`
			c, _ := serve(t, v)
			g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
			if (err != nil) != tt.bad {
				t.Fatalf("got %v, %v", g, err)
			}
			// The proxy has never had most of these names, and says so.
			if given := len(v.releases) > 0; given != tt.bad && tt.names != "[]" {
				t.Errorf("given back: %q", v.releases)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("error %q", err)
			}
		})
	}
	lease := func(id, names, leases string) string {
		return fmt.Sprintf(`{"names":%s,"leases":%s,"request_id":%q,"ttl":"5m"}`, names, leases, id)
	}
	for _, tt := range []struct{ name, reply string }{
		{"bad name", lease("id", `["a/b"]`, `[{"name":"a/b","generation":1}]`)},
		{"twice the same", lease("id", `["a","a"]`, `[{"name":"a","generation":1},{"name":"a","generation":2}]`)},
		{"leases missing", lease("id", `["a","b"]`, `null`)},
		{"other leases", lease("id", `["a","b"]`, `[{"name":"a","generation":1},{"name":"c","generation":2}]`)},
		{"no generation", lease("id", `["a","b"]`, `[{"name":"a","generation":1},{"name":"b"}]`)},
		{"other request", lease("other", `["a","b"]`, `[{"name":"a","generation":1},{"name":"b","generation":2}]`)},
		{"no time to live", strings.Replace(lease("id", `["a","b"]`, `[{"name":"a","generation":1},{"name":"b","generation":2}]`), "5m", "-1s", 1)},
	} {
		bubble(t, "ours/"+tt.name, func(t *testing.T) {
			s := newOurs(t)
			c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == leaseapi.PathAcquire {
					w.Write([]byte(tt.reply))
					return
				}
				s.ServeHTTP(w, r)
			}))
			g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 2}, RequestID: "id", Wait: time.Minute})
			if err == nil {
				t.Fatalf("granted %+v", g)
			}
			if len(s.released) != 1 {
				t.Fatalf("given back: %+v", s.released)
			}
			// Leases of another request may be those of another Acquire.
			if back := s.released[0]; !slices.Equal(back.RequestIDs, []string{"id"}) || len(back.Leases) > 0 {
				t.Errorf("given back: %+v", back)
			}
		})
	}
}

// The error names the leases that cannot be given back.
func TestHostileNamesThatStay(t *testing.T) {
	bubble(t, "version 1", func(t *testing.T) {
		v := newVersion1(t, "a")
		v.reply = `{"names":["a\n","a"]}`
		v.broken = 1000
		c, _ := serve(t, v)
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id", Wait: time.Minute})
		u, ok := errors.AsType[*UnconfirmedError](err)
		if !ok || !slices.Equal(u.Names, []string{"a\n", "a"}) || u.RequestID != "id" {
			t.Errorf("error %v", err)
		}
	})
}

// A proxy's text reaches a terminal only as one short line.
func TestErrorText(t *testing.T) {
	for _, tt := range []struct{ name, contentType, body, want string }{
		{"text", "text/plain", "no\nway \x1b[31mhere\r\n", "the proxy answered 400 Bad Request: no way [31mhere"},
		{"problem", leaseapi.ContentTypeProblem, `{"type":"urn:leasectl:problem:bad-request","title":"t","detail":"bad ttl"}`, "the proxy answered 400 Bad Request: bad ttl"},
		{"another's problem", leaseapi.ContentTypeProblem, `{"type":"about:blank","title":"t"}`, `the proxy answered 400 Bad Request: {"type":"about:blank","title":"t"}`},
		{"page", "text/html", "\n<html>", "the proxy answered 400 Bad Request: an HTML or XML page"},
		{"nothing", "", "", "the proxy answered 400 Bad Request"},
		{"long", "", strings.Repeat("ü", 1000), "the proxy answered 400 Bad Request: " + strings.Repeat("ü", maxText/2) + "…"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			refused := fault{status: 400, body: tt.body, header: http.Header{"Content-Type": {tt.contentType}}}
			c, _ := serve(t, nil, refused)
			_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
			if err == nil || err.Error() != "acquire: "+tt.want {
				t.Errorf("error %q, want %q", err, tt.want)
			}
		})
	}
	for to, says := range map[string]string{
		"https://proxy.test/lease/acquire?type=t": "the proxy http://proxy.test answered 302 Found: it speaks https",
		"https://proxy.test:443/lease/acquire":    "the proxy http://proxy.test answered 302 Found: it speaks https",
		"https://proxy.test:8443/lease/acquire":   `the proxy answered 302 Found and redirects to "https://proxy.test:8443/lease/acquire", which is not followed (is http://proxy.test the address of a lease proxy?)`,
		"https://login.test/?next=%2Flease":       `the proxy answered 302 Found and redirects to "https://login.test/?next=%2Flease", which is not followed (is http://proxy.test the address of a lease proxy?)`,
		"http://proxy.test/login":                 `the proxy answered 302 Found and redirects to "http://proxy.test/login", which is not followed (is http://proxy.test the address of a lease proxy?)`,
		"/login":                                  `the proxy answered 302 Found and redirects to "/login", which is not followed (is http://proxy.test the address of a lease proxy?)`,
	} {
		bubble(t, "redirect to "+to, func(t *testing.T) {
			c, _ := serve(t, newOurs(t), fault{status: 302, header: http.Header{"Location": {to}}})
			_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
			if err == nil || err.Error() != "acquire: "+says || errors.Is(err, ErrWantsTLS) != strings.HasSuffix(says, "it speaks https") {
				t.Errorf("%v, want %s", err, says)
			}
		})
	}
	bubble(t, "redirected question", func(t *testing.T) {
		c, _ := serve(t, nil, fault{status: 301, header: http.Header{"Location": {"https://new.test/x"}}})
		_, err := c.Pools(t.Context())
		if err == nil || !strings.Contains(err.Error(), `"https://new.test/x"`) {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "token", func(t *testing.T) {
		c, _ := serve(t, nil, status(401), status(401))
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
		if err == nil || !strings.Contains(err.Error(), "wants a token") {
			t.Errorf("error %v", err)
		}
		c.file.token = "secret"
		_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
		if err == nil || !strings.Contains(err.Error(), "refused the token") || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
	})
}

// Invalid requests are refused before they are sent.
func TestAcquireRequestChecked(t *testing.T) {
	good := Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "aZ0-_~."}
	for name, change := range map[string]func(*Request){
		"":                    func(*Request) {},
		"no type":             func(r *Request) { r.Type = "" },
		"long type":           func(r *Request) { r.Type = strings.Repeat("t", leaseapi.MaxName+1) },
		"negative count":      func(r *Request) { r.Count = -1 },
		"count and items":     func(r *Request) { r.Items = new(int) },
		"negative items":      func(r *Request) { r.Count, r.Items = 0, new(-1) },
		"long key":            func(r *Request) { r.Key = strings.Repeat("k", leaseapi.MaxKey+1) },
		"negative wait":       func(r *Request) { r.Wait = -1 },
		"negative ttl":        func(r *Request) { r.TTL = -1 },
		"long owner":          func(r *Request) { r.Owner = strings.Repeat("o", leaseapi.MaxOwner+1) },
		"slash in the id":     func(r *Request) { r.RequestID = "a/b" },
		"dots for an id":      func(r *Request) { r.RequestID = ".." },
		"long id":             func(r *Request) { r.RequestID = strings.Repeat("i", leaseapi.MaxRequestID+1) },
		"line feed in the id": func(r *Request) { r.RequestID = "a\n" },
	} {
		bubble(t, name, func(t *testing.T) {
			c, m := serve(t, newOurs(t, "a"))
			r := good
			change(&r)
			_, err := c.Acquire(t.Context(), r)
			if (err != nil) != (name != "") || err != nil && m.dials != 0 {
				t.Errorf("error %v after %d dials", err, m.dials)
			}
		})
	}
}

// A reply to a release says something of the names that were released, and of no others.
func TestHostileRelease(t *testing.T) {
	lie := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"released":["a","b","c\u001b[2J"],"stale":[{"name":"d","reason":"x"}],"over":[{"name":"a","reason":"\u001b[2Jr\u202e"}]}`)
	})
	for name, tt := range map[string]struct {
		request leaseapi.ReleaseRequest
		want    []string
	}{
		"by generation": {leaseapi.ReleaseRequest{Leases: []leaseapi.Lease{{Name: "a", Generation: 1}}}, []string{"a"}},
		"by name":       {leaseapi.ReleaseRequest{Names: []string{"a"}}, []string{"a"}},
		"by request":    {leaseapi.ReleaseRequest{RequestIDs: []string{"id"}}, []string{"a", "b"}},
	} {
		bubble(t, name, func(t *testing.T) {
			c, _ := serve(t, lie)
			ctx, cancel := context.WithTimeout(t.Context(), releaseTime)
			defer cancel()
			reply, err := c.Release(ctx, tt.request)
			if err == nil && !slices.Equal(reply.Released, tt.want) {
				t.Errorf("released %q, want %q", reply.Released, tt.want)
			}
			for _, lost := range reply.Over {
				if lost.Reason != "[2Jr" {
					t.Errorf("%+v", lost)
				}
			}
		})
	}
}

// An answer about another generation of a name says nothing of a lease: the call goes on, as after no answer.
func TestHostileGeneration(t *testing.T) {
	bubble(t, "release", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s, fault{status: 200, body: `{"released":[],"stale":[{"name":"a","generation":99,"reason":"unknown"}]}`})
		reply, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Leases: leases})
		want(t, err)
		if len(s.released) != 1 || len(reply.Stale) != 1 || reply.Stale[0].Lease != leases[0] {
			t.Errorf("%+v after %d releases", reply, len(s.released))
		}
	})
	bubble(t, "heartbeat", func(t *testing.T) {
		newMachine(t)
		s := newOurs(t)
		c, _ := serve(t, s, fault{status: 410, header: http.Header{"Content-Type": {leaseapi.ContentTypeProblem}},
			body: `{"type":"` + leaseapi.ProblemLost + `","lost":[{"name":"a","generation":99,"reason":"expired"}]}`})
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, TTL: time.Minute})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if s.renewed() == 0 {
			t.Error("no further renewal")
		}
		b.stop(t)
	})
}

// No proxy makes a client renew without a pause, or never again.
func TestHostileRenewEvery(t *testing.T) {
	for _, tt := range []struct {
		said leaseapi.Duration
		ttl  time.Duration
		want time.Duration
	}{
		{leaseapi.Duration(1), 5 * time.Minute, time.Second},
		{leaseapi.Duration(-1), time.Minute, 20 * time.Second},
		{leaseapi.Duration(1<<63 - 1), 5 * time.Minute, 30 * time.Second},
		{leaseapi.Duration(25 * time.Second), 5 * time.Minute, 25 * time.Second},
		{leaseapi.Duration(25 * time.Second), time.Minute, 20 * time.Second},
		{leaseapi.Duration(1), 300 * time.Millisecond, 100 * time.Millisecond},
	} {
		reply := leaseapi.RenewReply{TTL: leaseapi.Duration(tt.ttl), RenewEvery: tt.said}
		if got := renewalOf(reply, outcome{}, 0).RenewEvery; got != tt.want {
			t.Errorf("%s of %s: renewed every %s, want %s", time.Duration(tt.said), tt.ttl, got, tt.want)
		}
	}
}

// One false answer does not make leases last longer than they were granted: the renewals go on at
// the interval of the granted TTL.
func TestHostileTTL(t *testing.T) {
	const ttl = 21 * time.Second
	forged := fault{status: http.StatusOK, body: `{"ttl":"9999h","renew_every":"9999h","expires_at":"2999-01-01T00:00:00Z","release_at":"2000-01-02T00:00:00Z"}`}
	bubble(t, "heartbeat", func(t *testing.T) {
		newMachine(t)
		s := newOurs(t)
		s.ttl = ttl
		c, m := serve(t, s, forged)
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, TTL: ttl})
		time.Sleep(ttl/3 + time.Second)
		synctest.Wait()
		if s.renewed() != 1 || b.renewed[0].Deadline.Sub(b.renewed[0].Asked) != ttl {
			t.Errorf("%d honest renewals after a third of the TTL; the false one: %+v", s.renewed(), b.renewed)
		}
		c.Close()
		m.Close()
		b.lost(t, ttl/3+ttl)
	})
	bubble(t, "the only answer", func(t *testing.T) {
		newMachine(t)
		c, m := serve(t, newOurs(t), forged)
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, TTL: ttl})
		synctest.Wait()
		c.Close()
		m.Close()
		b.lost(t, ttl)
	})
	bubble(t, "renewal and grant", func(t *testing.T) {
		c, _ := serve(t, newOurs(t), forged)
		r, err := c.Renew(t.Context(), leases, ttl)
		want(t, err)
		reply := leaseapi.AcquireReply{Names: []string{"a"}, RequestID: "r", Leases: leases, TTL: leaseapi.Duration(time.Hour)}
		g, err := newGrant(&Request{RequestID: "r", TTL: ttl}, 1, reply)
		want(t, err)
		if r.TTL != ttl || r.RenewEvery != ttl/3 || g.TTL != ttl || g.RenewEvery != ttl/3 {
			t.Errorf("%+v, %+v", r, g)
		}
	})
}
