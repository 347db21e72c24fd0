package proxyserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
	"github.com/leasectl/leasectl/leaseapi"
)

const tokenFile = "red r-token-0123456789\nred r-second-0123456789\nblue b-token-0123456789\nops o-token-0123456789 admin\neye e-token-0123456789 read\n"

func startWithTokens(t *testing.T, opts Options) (p, red, blue, ops *peer) {
	t.Helper()
	tokens, err := config.ParseTokens("t", []byte(tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	opts.Auth = &auth.Config{Tokens: tokens}
	p = start(t, opts)
	// A call that is wrongly admitted would wait for a lease, for hours.
	p.http.Timeout = time.Minute
	return p, withToken(p, "r-token-0123456789"), withToken(p, "b-token-0123456789"), withToken(p, "o-token-0123456789")
}

// Without a token a caller can see only what probes need, and do nothing.
func TestNoToken(t *testing.T) {
	p, red, _, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	red.granted("type=q")
	for _, who := range []*peer{p, withToken(p, "wrong"), withToken(p, "")} {
		for _, c := range []struct{ method, target, body string }{
			{"POST", "/lease/acquire?type=q", ""},
			{"POST", "/lease/acquire?type=q&count=0", ""},
			{"POST", "/lease/release", `{"names":["q-0"]}`},
			{"POST", "/lease/renew", `{}`},
			{"POST", "/lease/break", `{"name":"q-0","reason":"x"}`},
			{"GET", "/lease/acquire", ""},
			{"GET", "/lease/requests/x", ""},
			{"GET", "/pools", ""},
			{"GET", "/metrics", ""},
			{"GET", "/nothing", ""},
		} {
			r := who.do(c.method, c.target, c.body)
			if pr := decode[leaseapi.Problem](t, r, 401); pr.Type != leaseapi.ProblemUnauthorized || r.header.Get("WWW-Authenticate") != `Bearer realm="leases"` {
				t.Errorf("%s %s: %+v %v", c.method, c.target, pr, r.header)
			}
		}
		for _, target := range []string{"/healthz", "/readyz"} {
			if r := who.do("GET", target, ""); r.status != 200 {
				t.Errorf("%s: %d %s", target, r.status, r.body)
			}
		}
	}
	if n := red.inUse(); n != 1 {
		t.Errorf("%d leases are held", n)
	}
}

// Nobody renews, releases or cancels a lease that was acquired with a token of another name. A
// call that tries changes nothing at all. Both hold after a restart, too.
func TestOwnerIsBoundToItsToken(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 { // the second time from the stored state
		p, red, blue, _ := startWithTokens(t, durable(t, dir, 3))
		r := red.granted("type=q&request_id=r&owner=me")
		b := blue.granted("type=q&request_id=b&owner=me")
		queued := red.later(t.Context(), "type=q&request_id=w&owner=me&count=2&wait=1h")
		red.waitingFor(1)
		lease := func(l leaseapi.AcquireReply) string {
			return fmt.Sprintf(`{"name":%q,"generation":%d}`, l.Names[0], l.Leases[0].Generation)
		}
		for _, c := range []struct{ target, body string }{
			{"/lease/renew", `{"leases":[` + lease(b) + `,` + lease(r) + `],"ttl":"1s"}`},
			{"/lease/release", `{"leases":[` + lease(b) + `,` + lease(r) + `]}`},
			{"/lease/release", `{"leases":[` + lease(r) + `],"delay":"1s"}`},
			{"/lease/release", `{"names":["` + b.Names[0] + `","` + r.Names[0] + `"]}`},
			{"/lease/release", `{"names":["` + r.Names[0] + `"],"owner":"me"}`},
		} {
			if pr := decode[leaseapi.Problem](t, blue.do("POST", c.target, c.body), 403); pr.Type != leaseapi.ProblemForbidden {
				t.Errorf("%s %s: %+v", c.target, c.body, pr)
			}
		}
		for _, id := range []string{"r", "w"}[:2*(1-round)] { // to blue another's request is like one that never was
			if q := blue.do("GET", leaseapi.PathRequests+id, ""); q.status != 404 {
				t.Errorf("blue asks for %s: %d %s", id, q.status, q.body)
			}
			if q := blue.acquire("type=q&owner=me&count=3&wait=0s&request_id=" + id); q.status != 503 {
				t.Errorf("blue acquires with the id %s: %d %s", id, q.status, q.body)
			}
			if q := blue.release(`{"request_ids":["` + id + `"]}`); q.status != 200 || q.body != `{"released":[]}` {
				t.Errorf("blue releases %s: %d %s", id, q.status, q.body)
			}
			if q := blue.acquire("type=q&owner=me&request_id=" + id); q.status != 410 {
				t.Errorf("blue acquires %s after it withdrew that: %d %s", id, q.status, q.body)
			}
		}
		pools := red.pools()[0]
		if pools.InUse != 2 || pools.Waiting != 1 || pools.Leases[0].Token != "red" || pools.Leases[0].Owner != "me" || pools.Leases[1].Token != "blue" {
			t.Errorf("something has changed: %+v", pools)
		}
		for _, l := range pools.Leases {
			if !l.ReleaseAt.IsZero() || l.Provisional == false {
				t.Errorf("lease %+v was touched", l)
			}
		}
		// A lease that has ended is stale, not forbidden.
		if got := blue.release(`{"names":["` + r.Names[0] + `"],"owner":"other"}`); got.status != 200 || !strings.Contains(got.body, "held-by-other") {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := blue.release(`{"leases":[{"name":"` + r.Names[0] + `","generation":5}]}`); got.status != 200 || !strings.Contains(got.body, "held-by-other") {
			t.Errorf("%d %s", got.status, got.body)
		}
		p.stop()
		<-queued
	}
	// Another token of the same name is the same owner.
	p, _, blue, _ := startWithTokens(t, durable(t, dir, 3))
	second := withToken(p, "r-second-0123456789")
	if got := second.granted("type=q&request_id=r&owner=me"); got.Names[0] != "q-0" {
		t.Errorf("after a restart %+v", got)
	}
	if r := second.release(`{"names":["q-0"],"owner":"me"}`); r.body != `{"released":["q-0"]}` {
		t.Errorf("%d %s", r.status, r.body)
	}
	if q := second.acquire("type=q&owner=me&count=2&wait=0s&request_id=w"); q.status == 410 {
		t.Errorf("blue withdrew what red waits for: %d %s", q.status, q.body)
	}
	if r := blue.release(`{"request_ids":["b"]}`); r.body != `{"released":["q-1"]}` {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A lease that was acquired before there were tokens belongs to all tokens: its owner must be
// able to go on.
func TestLeasesFromBeforeTokens(t *testing.T) {
	dir := t.TempDir()
	p := start(t, durable(t, dir, 2))
	a := p.granted("type=q&request_id=a&owner=me").Leases[0]
	p.granted("type=q&owner=me")
	p.stop()
	_, red, _, _ := startWithTokens(t, durable(t, dir, 2))
	if r := red.do("POST", "/lease/renew", withLeases(a)); r.status != 200 {
		t.Errorf("renew: %d %s", r.status, r.body)
	}
	if r := red.release(`{"names":["q-0","q-1"],"owner":"me"}`); r.body != `{"released":["q-0","q-1"]}` {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestOnlyAdminsBreak(t *testing.T) {
	p, red, blue, ops := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	red.granted("type=q&owner=me")
	const body = `{"name":"q-0","reason":"x","now":true}`
	for _, who := range []*peer{red, blue} {
		if pr := decode[leaseapi.Problem](t, who.do("POST", "/lease/break", body), 403); pr.Type != leaseapi.ProblemForbidden {
			t.Errorf("%+v", pr)
		}
	}
	if n := red.inUse(); n != 1 {
		t.Errorf("%d leases are held", n)
	}
	if r := ops.do("POST", "/lease/break", body); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := red.inUse(); n != 0 {
		t.Errorf("%d leases are held", n)
	}
	// A token that is removed is refused from the next call on.
	p.server.SetAuth(&auth.Config{})
	if r := ops.do("GET", "/pools", ""); r.status != 401 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
