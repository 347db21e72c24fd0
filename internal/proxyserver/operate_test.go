package proxyserver

import (
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
	"github.com/leasectl/leasectl/leaseapi"
)

func TestBreakWire(t *testing.T) {
	const target = "/lease/break"
	p := start(t, Options{Pools: []pool.Config{quota(2)}})
	g := p.granted("type=q&request_id=r&owner=me").Leases[0]
	bad := leaseapi.ProblemBadRequest
	runWire(t, p, []wireCase{
		{name: "by GET", method: "GET", target: target, status: 405, contentType: typeProblem, problem: leaseapi.ProblemMethod, allow: "POST", body: "/lease/break takes POST, not GET"},
		{name: "bad JSON", method: "POST", target: target, send: `x`, status: 400, contentType: typeProblem, problem: bad, body: "the body is not valid: invalid character 'x' looking for beginning of value"},
		{name: "no name", method: "POST", target: target, send: `{"reason":"x"}`, status: 400, contentType: typeProblem, problem: bad, body: "name is empty"},
		{name: "no reason", method: "POST", target: target, send: `{"name":"q-0"}`, status: 400, contentType: typeProblem, problem: bad, body: "reason is empty: those concerned will want to know"},
		{name: "reason of two lines", method: "POST", target: target, send: `{"name":"q-0","reason":"a\nb"}`, status: 400, contentType: typeProblem, problem: bad, body: `reason "a\nb" contains '\n'`},
		{name: "unknown name", method: "POST", target: target, send: `{"name":"zzz","reason":"x"}`, status: 404, contentType: typeProblem, problem: leaseapi.ProblemUnknownName, body: `the server has never had a lease "zzz"`},
		{name: "free name", method: "POST", target: target, send: `{"name":"q-1","reason":"x"}`, status: 409, contentType: typeProblem, problem: leaseapi.ProblemNotHeld, body: `nobody holds "q-1"`},
		{name: "another generation", method: "POST", target: target, send: `{"name":"q-0","reason":"x","generation":5}`, status: 409, contentType: typeProblem, problem: leaseapi.ProblemNotHeld, body: `the lease of "q-0" with generation 5 has ended (held-by-other)`},
	})
	if l := p.pools()[0].Leases; len(l) != 1 || l[0].Broken != "" {
		t.Errorf("what failed has changed something: %+v", l)
	}
	breakIt := func(body string) leaseapi.BreakReply {
		t.Helper()
		return decode[leaseapi.BreakReply](t, p.do("POST", target, body), 200)
	}
	if b := breakIt(`{"name":"q-0","reason":"why"}`); b.Ended || b.Lease.Lease != g || b.Lease.Owner != "me" || b.Lease.Broken != "why" {
		t.Errorf("broken: %+v", b)
	}
	pr := decode[leaseapi.Problem](t, p.do("POST", "/lease/renew", withLeases(g)), 410)
	if len(pr.Lost) != 1 || pr.Lost[0].Reason != leaseapi.ReasonBroken+"why" {
		t.Errorf("renewed: %+v", pr)
	}
	if l := p.pools()[0].Leases; len(l) != 1 || l[0].Broken != "why" {
		t.Errorf("leases %+v", l)
	}

	// A second copy of a break that ended the lease succeeds, and does not touch the
	// present holder of the name.
	now := `{"name":"q-0","reason":"why","now":true,"generation":` + num(g.Generation) + `}`
	if b := breakIt(now); !b.Ended || b.Lease.Lease != g {
		t.Errorf("broken: %+v", b)
	}
	breakIt(now)
	p.granted("type=q&request_id=next&count=2")
	if r := p.do("POST", target, now); r.status != 409 {
		t.Errorf("a copy that comes late: %d %s", r.status, r.body)
	}
	if n := p.inUse(); n != 2 {
		t.Errorf("%d leases are held, want 2", n)
	}
}

// An act of an operator has its line in the log before its consequences.
func TestActsAreToldInOrder(t *testing.T) {
	log := new(logText)
	strict := quota(2)
	strict.Overtake = new(pool.Decimal)
	opts := Options{Pools: []pool.Config{strict}, Log: slog.New(slog.NewTextHandler(log, nil))}
	p, red, _, ops := startWithTokens(t, opts)
	next := func(params string) <-chan reply {
		t.Helper()
		got := red.later(t.Context(), "type=q&"+params)
		red.waitingFor(1)
		return got
	}
	red.granted("type=q&request_id=a&count=2")

	broken := next("request_id=b")
	decode[leaseapi.BreakReply](t, ops.do("POST", leaseapi.PathBreak, `{"name":"q-0","reason":"R1","now":true}`), 200)
	<-broken
	large := next("request_id=c&count=2") // q-1 is held
	decode[leaseapi.BreakReply](t, ops.do("POST", leaseapi.PathBreak, `{"name":"q-1","reason":"R2"}`), 200)
	red.do("POST", "/lease/release", `{"names":["q-1"]}`)
	small := red.later(t.Context(), "type=q&request_id=d")
	red.waitingFor(2)
	decode[leaseapi.RemoveReply](t, ops.do("POST", leaseapi.PathRemove, `{"request_id":"c","reason":"R3"}`), 200)
	<-large
	<-small
	decode[leaseapi.PauseReply](t, ops.do("POST", leaseapi.PathPause, `{"type":"q","reason":"R4"}`), 200)
	red.do("POST", "/lease/release", `{"names":["q-0"]}`)
	paused := next("request_id=e")
	decode[leaseapi.PauseReply](t, ops.do("POST", leaseapi.PathResume, `{"type":"q"}`), 200)
	<-paused
	p.stop()

	lines := []string{
		`msg=granted .* request_id=a `, `msg=broken .* by=ops held=.* reason=R1\n`, `msg=granted .* request_id=b `,
		`msg=breaking .* by=ops ends_in=.* reason=R2\n`, `msg=removed .* request_id=c by=ops reason=R3 waited=`, `msg=granted .* request_id=d `,
		`msg=paused by=ops type=q reason=R4\n`, `msg=resumed by=ops type=q paused=`, `msg=granted .* request_id=e `,
	}
	if !regexp.MustCompile(strings.Join(lines, `(?s:.*)`)).MatchString(log.String()) {
		t.Errorf("not in order:\n%s", log)
	}
}

// A server that hears of a removal only from a second copy of the call logs the operator, too:
// the server that removed the waiter may have died before it logged that.
func TestCopyOfRemovalIsLogged(t *testing.T) {
	dir := t.TempDir()
	const removal = `{"request_id":"w","reason":"drill"}`
	p, red, _, ops := startWithTokens(t, durable(t, dir, 1))
	red.granted("type=q&request_id=r")
	red.later(t.Context(), "type=q&request_id=w")
	red.waitingFor(1)
	decode[leaseapi.RemoveReply](t, ops.do("POST", leaseapi.PathRemove, removal), 200)
	p.stop()

	log := new(logText)
	opts := durable(t, dir, 1)
	opts.Log = slog.New(slog.NewTextHandler(log, nil))
	_, _, _, ops = startWithTokens(t, opts)
	decode[leaseapi.RemoveReply](t, ops.do("POST", leaseapi.PathRemove, removal), 200)
	if want := "msg=removed by=ops request_id=w reason=drill\n"; !strings.Contains(log.String(), want) {
		t.Errorf("no line %s in %s", want, log)
	}
}

// A broken lease ends with its TTL, also over a restart: nothing extends it.
func TestBrokenOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := start(t, durable(t, dir, 1))
		g := p.granted("type=q&request_id=r&ttl=10m").Leases[0]
		renew := withLeases(g)
		p.do("POST", "/lease/renew", renew)
		time.Sleep(4 * time.Minute)
		p.do("POST", "/lease/break", `{"name":"q-0","reason":"why"}`)
		p.stop()
		time.Sleep(time.Hour)
		p = start(t, durable(t, dir, 1))
		l := p.pools()[0].Leases
		if len(l) != 1 || l[0].Broken != "why" || time.Duration(l[0].ExpiresIn).Round(time.Second) != 6*time.Minute {
			t.Fatalf("after a restart %+v", l)
		}
		if r := p.do("POST", "/lease/renew", renew); r.status != 410 || !strings.Contains(r.body, "broken: why") {
			t.Errorf("renew: %d %s", r.status, r.body)
		}
		time.Sleep(6*time.Minute + time.Second)
		synctest.Wait()
		if n := p.inUse(); n != 0 {
			t.Errorf("%d leases are held after the TTL", n)
		}
	})
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no commit comes before the commit of the end
		p := start(t, durable(t, t.TempDir(), 1))
		ready := func() leaseapi.Ready {
			t.Helper()
			return decode[leaseapi.Ready](t, p.do("GET", "/readyz", ""), 200)
		}
		if r := ready(); r.Status != "ok" || r.Warnings != nil {
			t.Errorf("%+v", r)
		}
		p.server.Reloaded("tokens", errors.New("t:1: bad"))
		p.server.Reloaded("config", errors.New("c:1:1: bad"))
		p.server.Reloaded("config", errors.New("c:2:1: bad"))
		if r := ready(); r.Status != "degraded" || strings.Join(r.Warnings, "|") != "config: not taken up: c:2:1: bad|tokens: not taken up: t:1: bad" {
			t.Errorf("%+v", r)
		}
		tokens, err := config.ParseTokens("t", []byte("a secret-0123456789"))
		if err != nil {
			t.Fatal(err)
		}
		p.server.SetAuth(&auth.Config{Tokens: tokens})
		if r := ready(); r.Status != "degraded" || r.Warnings != nil {
			t.Errorf("to somebody without a token: %+v", r)
		}
		p.server.SetAuth(nil)
		p.server.Reloaded("tokens", nil)
		p.server.Reloaded("config", nil)
		if r := ready(); r.Status != "ok" || r.Warnings != nil {
			t.Errorf("%+v", r)
		}

		p.server.store.Close()
		p.acquire("type=q")
		<-p.server.term.failed
		if pr := decode[leaseapi.Problem](t, p.local("GET", "/readyz", ""), 503); pr.Type != leaseapi.ProblemUnavailable {
			t.Errorf("after the store failed: %+v", pr)
		}
	})
}

// Waiters that a new configuration can never serve are answered at once. Names that it lacks
// drain. A configuration that is not valid changes nothing.
func TestSetPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(2), {Type: "gone", Names: []string{"g"}}}})
		p.acquire("type=q&count=2")
		p.acquire("type=gone")
		few := p.later(t.Context(), "type=q&request_id=few")
		many := p.later(t.Context(), "type=q&count=2")
		gone := p.later(t.Context(), "type=gone&request_id=gone")
		synctest.Wait()
		if err := p.server.SetPools([]pool.Config{{Type: "q", Names: []string{"a", "a"}}, {Type: "u", Names: []string{"a"}}}); err == nil {
			t.Error("pools that are not valid are taken")
		}
		if pools := p.pools(); len(pools) != 2 || pools[0].Waiting != 2 || pools[0].Capacity != 2 {
			t.Errorf("what is not valid changed something: %+v", pools)
		}
		if err := p.server.SetPools([]pool.Config{quota(1), {Type: "new", Names: []string{"n"}}}); err != nil {
			t.Fatal(err)
		}
		if r := <-many; r.status != 400 || !strings.HasPrefix(r.body, `Failed to acquire lease "q": the pool can never give that many`) {
			t.Errorf("too many: %d %s", r.status, r.body)
		}
		if r := <-gone; r.status != 404 || r.body != "Failed to acquire lease \"gone\": resource type not found\n" {
			t.Errorf("gone: %d %s", r.status, r.body)
		}
		p.granted("type=new")
		p.release(`{"names":["q-1"]}`) // it is not granted again
		synctest.Wait()
		if pools := p.pools(); pools[0].InUse != 1 || pools[0].Waiting != 1 || len(pools) != 3 || pools[2].Capacity != 0 || pools[2].InUse != 1 {
			t.Errorf("pools %+v", pools)
		}
		p.release(`{"names":["q-0"]}`)
		if r := <-few; r.status != 200 || !strings.Contains(r.body, `"q-0"`) {
			t.Errorf("few: %d %s", r.status, r.body)
		}
		if r := p.release(`{"names":["g","q-1"]}`); r.status != 204 {
			t.Errorf("release of names that were taken out: %d %s", r.status, r.body)
		}
	})
}

// The next grant in /pools follows the pace of the pool.
func TestNextGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quota(3)
		q.Pace = time.Minute
		p := start(t, Options{Pools: []pool.Config{q}})
		p.acquire("type=q")
		begin := time.Now()
		next := p.later(t.Context(), "type=q")
		time.Sleep(20 * time.Second)
		if got := p.pools()[0].NextGrantIn; time.Duration(got) != 40*time.Second {
			t.Errorf("the next grant is in %v", time.Duration(got))
		}
		if r := <-next; r.status != 200 || time.Since(begin) != time.Minute {
			t.Errorf("after %v: %d %s", time.Since(begin), r.status, r.body)
		}
	})
}

// withToken makes all calls of p show a token.
func withToken(p *peer, token string) *peer {
	other := *p
	transport := p.http.Transport
	client := *p.http
	client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
		return transport.RoundTrip(r)
	})
	other.http = &client
	return &other
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
