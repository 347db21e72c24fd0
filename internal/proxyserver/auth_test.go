package proxyserver

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/auth/authtest"
	"github.com/leasectl/leasectl/leaseapi"
)

// identities is a server with tokens and two issuers, whose pools are a and b.
type identities struct {
	*peer
	t             *testing.T
	first, second *authtest.Issuer
	key           authtest.Key
	log           *strings.Builder
	may           auth.Config
}

const (
	opsSecret   = "ops-secret-0123456789"
	opsASecret  = "ops-a-secret-0123456789"
	acmeSecret  = "acme-secret-0123456789"
	boardSecret = "board-secret-0123456789"
)

func startWithIssuers(t *testing.T, opts Options) *identities {
	t.Helper()
	s := &identities{t: t, first: authtest.NewIssuer(t), second: authtest.NewIssuer(t), key: authtest.NewKey(t, "k"), log: new(strings.Builder)}
	s.first.Publish(s.key)
	s.second.Publish(s.key)
	token := func(name, secret string, rights auth.Rights) auth.Token {
		sum, err := auth.SumOf(secret)
		if err != nil {
			t.Fatal(err)
		}
		return auth.Token{Name: name, Sum: sum, Rights: rights}
	}
	rules := []auth.Rule{
		{Claims: map[string]string{"repository": "acme/*", "ref": "refs/heads/main"}, Name: "{repository}"},
		{Claims: map[string]string{"repository": "acme/*"}, Name: "{repository}", Rights: auth.Rights{Pools: []string{"a"}}},
		{Claims: map[string]string{"repository": "look/*"}, Name: "{repository}", Rights: auth.Rights{Role: auth.RoleRead, Pools: []string{"a"}}},
	}
	s.may = auth.Config{
		Tokens: []auth.Token{
			token("ops", opsSecret, auth.Rights{Role: auth.RoleAdmin}),
			token("ops-a", opsASecret, auth.Rights{Role: auth.RoleAdmin, Pools: []string{"a*"}}),
			token("acme/app", acmeSecret, auth.Rights{}), // called like a caller of the issuers
			token("board", boardSecret, auth.Rights{Role: auth.RoleRead, Pools: []string{"a"}}),
		},
		Issuers: []auth.Issuer{
			{URL: s.first.URL, Audience: "leasectl", Rules: rules},
			{URL: s.second.URL, Audience: "leasectl", Rules: rules},
		},
	}
	opts.Auth = &s.may
	opts.Log = slog.New(slog.NewTextHandler(s.log, nil))
	if opts.Pools == nil {
		opts.Pools = []pool.Config{{Type: "a", Names: pool.Numbered("a", 4)}, {Type: "b", Names: pool.Numbered("b", 4)}}
	}
	s.peer = start(t, opts)
	s.http.Timeout = time.Minute
	return s
}

// job returns a client of a job, with a new token.
func (s *identities) job(i *authtest.Issuer, changes map[string]any) *peer {
	return withToken(s.peer, s.key.Sign(s.t, i.Claims(changes)))
}

func (s *identities) with(secret string) *peer { return withToken(s.peer, secret) }

// A caller is its name and who vouches for it, not its token: a job with a new token goes on with
// what it took with the old one. Nobody of the same name from elsewhere may touch it, also after a
// restart.
func TestCallerIsItsName(t *testing.T) {
	s := startWithIssuers(t, Options{})
	main := map[string]any{"ref": "refs/heads/main"}
	granted := s.job(s.first, main).granted("type=b&request_id=r&owner=me")
	lease := granted.Leases[0]
	if l := s.with(opsSecret).pools()[1].Leases[0]; l.Token != "acme/app" || l.Owner != "me" {
		t.Errorf("shown as %+v", l)
	}
	for who, other := range map[string]*peer{
		"another issuer": s.job(s.second, main), "a token of the file": s.with(acmeSecret),
		"another repository": s.job(s.first, map[string]any{"repository": "acme/other", "ref": "refs/heads/main"}), "an operator": s.with(opsSecret),
	} {
		for _, c := range []struct{ target, body string }{
			{"/lease/renew", withLeases(lease)}, {"/lease/release", withLeases(lease)}, {"/lease/release", `{"names":["b-0"],"owner":"me"}`},
			{"/lease/release", `{"names":["b-0"]}`},
		} {
			if pr := decode[leaseapi.Problem](t, other.do("POST", c.target, c.body), 403); pr.Type != leaseapi.ProblemForbidden || !strings.Contains(pr.Detail, "by another caller") {
				t.Errorf("%s: %s %s: %+v", who, c.target, c.body, pr)
			}
		}
		if r := other.do("POST", "/lease/release", `{"owner":"me","all":true}`); r.status != 200 || strings.Contains(r.body, "b-0") {
			t.Errorf("%s releases all: %d %s", who, r.status, r.body)
		}
		// Its id is to others like one that never was.
		if r, fresh := other.acquire("type=b&request_id=r&owner=me&count=4&wait=0s"), other.acquire("type=b&request_id=fresh&owner=me&count=4&wait=0s"); r.status != fresh.status || r.status == 200 {
			t.Errorf("%s acquires with its id: %d %s; with a fresh one: %d", who, r.status, r.body, fresh.status)
		}
		if r := other.do("POST", "/lease/report", `{"request_id":"r","outcome":"ok"}`); r.status != 404 {
			t.Errorf("%s reports: %d %s", who, r.status, r.body)
		}
		if r := other.release(`{"request_ids":["r"]}`); r.status != 200 || r.body != `{"released":[]}` {
			t.Errorf("%s releases its id: %d %s", who, r.status, r.body)
		}
		if r := other.acquire("type=b&request_id=swap&owner=me" + replacing(granted.Leases...)); r.status != 403 {
			t.Errorf("%s replaces it: %d %s", who, r.status, r.body)
		}
	}
	again := s.job(s.first, map[string]any{"ref": "refs/heads/main", "iat": time.Now().Add(-30 * time.Second).Unix()})
	if r := again.do("POST", "/lease/renew", withLeases(lease)); r.status != 200 {
		t.Errorf("renew with a new token: %d %s", r.status, r.body)
	}
	if got := again.granted("type=b&request_id=r&owner=me"); got.Names[0] != "b-0" {
		t.Errorf("the same request with a new token: %+v", got)
	}
	if r := again.do("POST", "/lease/report", `{"request_id":"r","outcome":"ok"}`); r.status != 200 {
		t.Errorf("report with a new token: %d %s", r.status, r.body)
	}
	if r := again.release(withLeases(lease)); r.body != `{"released":["b-0"]}` {
		t.Errorf("release with a new token: %d %s", r.status, r.body)
	}
}

// Who may use pool a alone knows nothing of pool b, and does nothing there. Its errors say what it
// may use.
func TestPoolsOfACaller(t *testing.T) {
	s := startWithIssuers(t, Options{})
	branch := s.job(s.first, map[string]any{"ref": "refs/heads/x"})
	main := s.job(s.first, map[string]any{"repository": "acme/other", "ref": "refs/heads/main"})
	main.granted("type=b&request_id=other&owner=you")
	main.granted("type=a&request_id=seen&owner=you")
	branch.granted("type=a&owner=me")

	for _, typ := range []string{"b", "none"} { // a pool that it may not use is as one that does not exist
		pr := decode[leaseapi.Problem](t, branch.acquire("type="+typ), 403)
		if want := `acme/app may not use pool "` + typ + `", but a`; pr.Type != leaseapi.ProblemForbidden || pr.Detail != want {
			t.Errorf("%s: %+v", typ, pr)
		}
	}
	for who, p := range map[string]*peer{"a job": branch, "a reader": s.with(boardSecret), "a reader of the issuer": s.job(s.second, map[string]any{"repository": "look/x"}), "an operator of a": s.with(opsASecret)} {
		if all := p.pools(); len(all) != 1 || all[0].Type != "a" {
			t.Errorf("%s sees %+v", who, all)
		}
		if r := p.do("GET", "/lease/requests/other", ""); r.status != 404 || !strings.Contains(r.body, leaseapi.ProblemUnknownRequest) {
			t.Errorf("%s asks for a request of b: %d %s", who, r.status, r.body)
		}
		if r := p.do("GET", "/lease/requests/seen", ""); r.status != 200 && p != branch || r.status != 404 && p == branch {
			t.Errorf("%s asks for a request of a: %d %s", who, r.status, r.body)
		}
		if r := p.do("GET", "/metrics", ""); r.status != 403 {
			t.Errorf("%s reads the metrics of all pools: %d", who, r.status)
		}
		for _, c := range []struct{ target, body string }{
			{leaseapi.PathPause, `{"type":"b","reason":"x"}`}, {leaseapi.PathResume, `{"type":"b"}`}, {leaseapi.PathBackup, ""},
		} {
			if r := p.do("POST", c.target, c.body); r.status != 403 {
				t.Errorf("%s: %s %s: %d %s", who, c.target, c.body, r.status, r.body)
			}
		}
	}
	if all := s.with(opsSecret).pools(); len(all) != 2 || all[1].InUse != 1 || all[1].Paused != "" {
		t.Errorf("something has changed in b: %+v", all)
	}
	// In its own pool an operator operates.
	if r := s.with(opsASecret).do("POST", leaseapi.PathPause, `{"type":"a","reason":"x"}`); r.status != 200 {
		t.Errorf("an operator of a pauses a: %d %s", r.status, r.body)
	}
	// Signing in to the page, which shows all pools, takes a token for all.
	b := &browser{peer: s.peer}
	if r := b.ask("POST", "/ui/login", url.Values{"token": {opsASecret}}.Encode()); r.status != 403 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("a token of some pools signs in: %d %v", r.status, r.header)
	}
}

// What was acquired before the server asked for tokens is everybody's who may use its pool.
func TestLeasesFromBeforeIssuers(t *testing.T) {
	pools := []pool.Config{{Type: "a", Names: pool.Numbered("a", 4)}, {Type: "b", Names: pool.Numbered("b", 4)}}
	dir := t.TempDir()
	opts := durable(t, dir, 1)
	opts.Pools = pools
	before := start(t, opts)
	inA := before.granted("type=a&request_id=ra&owner=me").Leases[0]
	inB := before.granted("type=b&request_id=rb&owner=me").Leases[0]
	before.stop()
	opts = durable(t, dir, 1)
	opts.Pools = pools
	s := startWithIssuers(t, opts)
	branch := s.job(s.first, map[string]any{"ref": "refs/heads/x"})
	if r := branch.release(withLeases(inB)); !strings.HasPrefix(r.body, `{"released":[],"stale":[`) || !strings.Contains(r.body, "unknown") {
		t.Errorf("a lease of b: %d %s", r.status, r.body)
	}
	if r := branch.release(`{"owner":"me","all":true}`); r.status != 200 || strings.Contains(r.body, "-0") {
		t.Errorf("all leases of their owner: %d %s", r.status, r.body)
	}
	if r := branch.do("POST", "/lease/renew", withLeases(inA)); r.status != 200 {
		t.Errorf("renew a lease of a: %d %s", r.status, r.body)
	}
	if r := branch.release(withLeases(inA)); r.status != 200 {
		t.Errorf("a lease of a: %d %s", r.status, r.body)
	}
}

// What a caller holds whose rule was removed stays until its TTL is over, and an operator ends it.
func TestRemovedCaller(t *testing.T) {
	s := startWithIssuers(t, Options{})
	job := s.job(s.first, nil)
	lease := job.granted("type=a&owner=me").Leases[0]
	fewer := s.may
	fewer.Issuers = fewer.Issuers[1:]
	s.server.SetAuth(&fewer)
	if r := job.do("POST", "/lease/renew", withLeases(lease)); r.status != 401 {
		t.Errorf("a removed caller renews: %d %s", r.status, r.body)
	}
	if all := s.with(opsSecret).pools(); all[0].InUse != 1 {
		t.Errorf("its lease is gone: %+v", all)
	}
	if r := s.with(opsSecret).do("POST", leaseapi.PathBreak, `{"name":"a-0","reason":"gone","now":true}`); r.status != 200 {
		t.Errorf("an operator ends it: %d %s", r.status, r.body)
	}
}

// Who may no longer use a pool neither keeps a lease there for longer nor grows it, but may give it back.
func TestLeaseAfterTheRightToItsPool(t *testing.T) {
	may := callers(t)
	p := start(t, Options{Pools: []pool.Config{quota(2), {Type: "mem", Units: 100}, {Type: "other", Units: 1}}, Auth: may})
	p = withToken(p, callerSecret)
	kept := p.granted("type=q&request_id=kept").Leases[0]
	sized := p.granted("type=mem&count=10&request_id=sized").Leases[0]
	other := p.granted("type=other&request_id=other").Leases[0]
	resize := func(count int) reply {
		return p.do("POST", leaseapi.PathResize, fmt.Sprintf(`{"name":%q,"generation":%d,"from":10,"count":%d}`, sized.Name, sized.Generation, count))
	}
	fewer := *may
	fewer.Tokens = slices.Clone(may.Tokens)
	fewer.Tokens[0].Pools = []string{"other"}
	p.server.SetAuth(&fewer)
	delayed := strings.TrimSuffix(withLeases(kept), "}") + `,"delay":"10m"}`
	for what, c := range map[string]struct {
		got  reply
		want int
	}{
		"renew":                       {p.do("POST", leaseapi.PathRenew, withLeases(kept)), 403},
		"renew both":                  {p.do("POST", leaseapi.PathRenew, withLeases(other, kept)), 403},
		"renew what it may have":      {p.do("POST", leaseapi.PathRenew, withLeases(other)), 200},
		"grow":                        {resize(50), 403},
		"shrink":                      {resize(5), 200},
		"release later":               {p.release(delayed), 403},
		"release a name later":        {p.release(fmt.Sprintf(`{"names":[%q],"delay":"10m"}`, kept.Name)), 403},
		"release":                     {p.release(withLeases(kept)), 200},
		"release what was made small": {p.release(withLeases(sized)), 200},
	} {
		if c.got.status != c.want {
			t.Errorf("%s: %d %s, want %d", what, c.got.status, c.got.body, c.want)
		}
	}
}

// A refusal is told to the log and the metrics with its reason, and to a stranger without. The log
// has a line a second at most for each reason, and no token.
func TestRefusalsAreLogged(t *testing.T) {
	s := startWithIssuers(t, Options{})
	expired := s.key.Sign(t, s.first.Claims(map[string]any{"exp": 5}))
	begun := time.Now()
	for range 20 {
		pr := decode[leaseapi.Problem](t, s.with(expired).acquire("type=a"), 401)
		if pr.Detail != "a token that the server knows is needed" || pr.Reason != "" {
			t.Errorf("%+v", pr)
		}
	}
	pr := decode[leaseapi.Problem](t, s.job(s.second, map[string]any{"repository": "evil/x"}).acquire("type=a"), 403)
	if !strings.HasSuffix(pr.Detail, "which has repository=evil/x aud=leasectl iss="+s.second.URL+" sub=repo:acme/app:ref:refs/heads/main") {
		t.Errorf("%+v", pr)
	}
	s.second.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusBadGateway) })
	s.with("not-a-secret-of-anybody").do("GET", "/pools", "")
	s.do("GET", "/pools", "")
	metrics := s.with(opsSecret).do("GET", "/metrics", "").body
	for _, want := range []string{
		`leasectl_not_admitted_total{reason="expired",issuer="` + s.first.URL + `"} 20`,
		`leasectl_not_admitted_total{reason="no-rule",issuer="` + s.second.URL + `"} 1`,
		`leasectl_not_admitted_total{reason="unknown-token",issuer=""} 1`,
		`leasectl_not_admitted_total{reason="no-token",issuer=""} 1`,
		`leasectl_refusals_total{type="",reason="unauthorized"} 22`,
		`leasectl_issuer_up{issuer="` + s.first.URL + `"} 1`,
		`leasectl_issuer_fetches_total{issuer="` + s.first.URL + `",result="ok"} 1`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics do not say %s", want)
		}
	}
	s.stop()
	log := s.log.String()
	if n := strings.Count(log, "reason=expired"); n < 1 || n > 2+int(time.Since(begun)/refusalEvery) || !strings.Contains(log, `detail="it ended at 1970-01-01T00:00:05Z"`) {
		t.Errorf("%d lines about an expired token:\n%s", n, log)
	}
	if !strings.Contains(log, "reason=no-rule") || strings.Contains(log, expired[:20]) || strings.Contains(log, "not-a-secret-of-anybody") {
		t.Errorf("the log:\n%s", log)
	}
}

// An issuer that is down is a 503 with its name, a warning and a metric. Others go on.
func TestIssuerDown(t *testing.T) {
	s := startWithIssuers(t, Options{})
	s.first.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusBadGateway) })
	r := s.job(s.first, nil).acquire("type=a")
	if pr := decode[leaseapi.Problem](t, r, 503); pr.Type != leaseapi.ProblemUnavailable || !strings.Contains(pr.Detail, s.first.URL) || r.header.Get("Retry-After") == "" {
		t.Errorf("%+v %v", pr, r.header)
	}
	s.job(s.second, nil).granted("type=a")
	s.with(acmeSecret).granted("type=a")
	if r := s.with(opsSecret).do("GET", "/readyz", ""); !strings.Contains(r.body, "degraded") || !strings.Contains(r.body, s.first.URL) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if metrics := s.with(opsSecret).do("GET", "/metrics", "").body; !strings.Contains(metrics, `leasectl_issuer_up{issuer="`+s.first.URL+`"} 0`) {
		t.Error("the metrics do not say that it is down")
	}
}

// A token that is larger than headers may be is refused before anybody looks at it.
func TestHugeToken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	key := authtest.NewKey(t, "k")
	issuer := authtest.NewIssuer(t)
	issuer.Publish(key)
	start(t, Options{Pools: []pool.Config{quota(1)}, Auth: &auth.Config{Issuers: []auth.Issuer{{URL: issuer.URL, Audience: "leasectl", Rules: []auth.Rule{{Claims: map[string]string{"sub": "*"}, Name: "x"}}}}}}, l)
	for _, size := range []int{64 << 10, 1 << 20} {
		req, err := http.NewRequest("GET", "http://"+l.Addr().String()+"/pools", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key.Sign(t, issuer.Claims(map[string]any{"fill": strings.Repeat("x", size)})))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // the server closed the connection in the middle of it
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%d bytes: %s", size, resp.Status)
		}
	}
	if n := issuer.Fetched(); n != 0 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func TestWhoami(t *testing.T) {
	s := startWithIssuers(t, Options{})
	exp := time.Now().Add(time.Minute).Truncate(time.Second)
	for name, c := range map[string]struct {
		who  *peer
		want leaseapi.WhoamiReply
	}{
		"a job":      {s.job(s.first, map[string]any{"exp": exp.Unix()}), leaseapi.WhoamiReply{Name: "acme/app", Issuer: s.first.URL, Role: "job", Pools: []string{"a"}, Until: exp.UTC()}},
		"an admin":   {s.with(opsASecret), leaseapi.WhoamiReply{Name: "ops-a", Role: "admin", Pools: []string{"a*"}}},
		"everything": {s.with(acmeSecret), leaseapi.WhoamiReply{Name: "acme/app", Role: "job"}},
	} {
		got := decode[leaseapi.WhoamiReply](t, c.who.do("GET", leaseapi.PathWhoami, ""), 200)
		if got.Name != c.want.Name || got.Issuer != c.want.Issuer || got.Role != c.want.Role || strings.Join(got.Pools, ",") != strings.Join(c.want.Pools, ",") || !got.Until.Equal(c.want.Until) || got.Open {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if r := s.do("GET", leaseapi.PathWhoami, ""); r.status != 401 {
		t.Errorf("nobody: %d %s", r.status, r.body)
	}
	open := start(t, Options{Pools: []pool.Config{quota(1)}})
	if got := decode[leaseapi.WhoamiReply](t, open.do("GET", leaseapi.PathWhoami, ""), 200); !got.Open || got.Name != "" {
		t.Errorf("without tokens: %+v", got)
	}
}
