package proxyserver

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/leaseapi"
)

// identity is a column of the table of rights.
type identity struct {
	name string
	auth.Rights
}

// whoAsks are the columns of the table. Beside them there is the victim, a job of beta alone.
var whoAsks = []identity{
	{"nobody", auth.Rights{}},
	{"a bad token", auth.Rights{}},
	{"a job of alpha", auth.Rights{Pools: []string{"alpha"}}},
	{"a job", auth.Rights{}},
	{"a reader of alpha", auth.Rights{Role: auth.RoleRead, Pools: []string{"alpha"}}},
	{"a reader", auth.Rights{Role: auth.RoleRead}},
	{"an admin of alpha", auth.Rights{Role: auth.RoleAdmin, Pools: []string{"alpha"}}},
	{"an admin", auth.Rights{Role: auth.RoleAdmin}},
}

// secret is the secret of an identity.
func (i identity) secret() string { return strings.ReplaceAll(i.name, " ", "-") + "-secret-0123456789" }

// victim is a job of beta alone: its request "held" has beta-0, and its request "waits" waits for four
// names there. beta-1 is reserved by an operator.
type victim struct {
	*peer
	server *peer // as somebody without a token
	lease  leaseapi.Lease
}

func startWithVictim(t *testing.T) (v victim) {
	t.Helper()
	who := append([]identity{{"victim", auth.Rights{Pools: []string{"beta"}}}}, whoAsks[2:]...)
	var tokens []auth.Token
	for _, i := range who {
		sum, err := auth.SumOf(i.secret())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, auth.Token{Name: i.name, Sum: sum, Rights: i.Rights})
	}
	p := start(t, Options{
		Pools: []pool.Config{{Type: "alpha", Names: pool.Numbered("alpha", 4)}, {Type: "beta", Names: pool.Numbered("beta", 6)}, {Type: "units", Units: 3, Overcommit: 2}},
		Auth:  &auth.Config{Tokens: tokens},
	})
	v.server, v.peer = p, withToken(p, who[0].secret())
	v.lease = v.granted("type=beta&request_id=held&owner=it").Leases[0]
	v.do("POST", leaseapi.PathRenew, withLeases(v.lease))
	if r := withToken(p, whoAsks[7].secret()).do("POST", leaseapi.PathReserve, `{"name":"beta-1","owner":"alice","reason":"repair"}`); r.status != 200 {
		t.Fatalf("reserve: %d %s", r.status, r.body)
	}
	v.later(t.Context(), "type=beta&request_id=waits&owner=it&count=5&wait=1h")
	v.waitingFor(1)
	return v
}

// as returns a peer that is i.
func (v victim) as(i identity) *peer {
	if i.name == "nobody" {
		return v.server
	}
	return withToken(v.server, i.secret())
}

// The texts of the table that stand for the victim's lease, and for an acquire.
const (
	itsLease = `{"name":"NAME","generation":GEN}`
	anew     = leaseapi.PathAcquire + "?owner=me&wait=0s&request_id="
)

// rights is what each identity may do, verb by verb, with what is another caller's. Each cell is the status
// of the answer. With "=", the answer is the one for something that never was, so that nobody learns by
// asking. With "!", and only then, something changed for the victim or in its pool.
var rights = []struct {
	verb, method, target, body string // without a method: on the page
	want                       string // nobody, bad token; job of alpha, job; reader of alpha, reader; admin of alpha, admin
}{
	{"acquire", "POST", anew + "new&type=TYPE", "", "401 401 403= 200! 403 403 403= 200!"},
	{"acquire also", "POST", anew + "new&type=alpha&also=TYPE", "", "401 401 403= 200! 403 403 403= 200!"},
	{"acquire by name", "POST", anew + "new&type=TYPE&name=beta-2", "", "401 401 403= 200! 403 403 403= 200!"},
	{"acquire with its id", "POST", anew + "ID&type=alpha&name=nobodys", "", "401 401 404= 404= 403 403 404= 404="},
	{"acquire with its waiting id", "POST", anew + "WAITS&type=alpha&name=nobodys", "", "401 401 404= 404= 403 403 404= 404="},
	{"acquire in its place", "POST", anew + "new&type=alpha&replaces=NAME:GEN", "", "401 401 200= 403 403 403 200= 403"},
	{"acquire with priority", "POST", anew + "new&type=alpha&priority=1", "", "401 401 403 403 403 403 403 403"},
	{"acquire with overcommit", "POST", anew + "new&type=units&overcommit=true", "", "401 401 403 403 403 403 403 200"},
	{"renew", "POST", leaseapi.PathRenew, `{"leases":[` + itsLease + `]}`, "401 401 410= 403 403 403 410= 403"},
	{"resize", "POST", leaseapi.PathResize, `{"name":"NAME","generation":GEN,"from":1,"count":2}`, "401 401 410= 403 403 403 410= 403"},
	{"resize by items", "POST", leaseapi.PathResize, `{"name":"NAME","generation":GEN,"from":1,"items":2}`, "401 401 410= 403 403 403 410= 403"},
	{"release", "POST", leaseapi.PathRelease, `{"leases":[` + itsLease + `]}`, "401 401 200= 403 403 403 200= 403"},
	{"release later", "POST", leaseapi.PathRelease, `{"leases":[` + itsLease + `],"delay":"1h"}`, "401 401 200= 403 403 403 200= 403"},
	{"release by name", "POST", leaseapi.PathRelease, `{"names":["NAME"]}`, "401 401 500= 403 403 403 500= 403"},
	{"release by owner", "POST", leaseapi.PathRelease, `{"names":["NAME"],"owner":"it"}`, "401 401 500= 403 403 403 500= 403"},
	{"release by request", "POST", leaseapi.PathRelease, `{"request_ids":["ID"]}`, "401 401 200= 200= 403 403 200= 200="},
	{"withdraw", "POST", leaseapi.PathRelease, `{"request_ids":["WAITS"]}`, "401 401 200= 200= 403 403 200= 200="},
	{"release all", "POST", leaseapi.PathRelease, `{"all":true,"owner":"it"}`, "401 401 200 200 403 403 200 200"},
	{"give back what is reserved", "POST", leaseapi.PathRelease, `{"names":["beta-1"],"owner":"alice"}`, "401 401 500 403 403 403 500 200!"},
	{"report", "POST", leaseapi.PathReport, `{"request_id":"ID","outcome":"throttled"}`, "401 401 404= 404= 403 403 404= 404="},
	{"request", "GET", leaseapi.PathRequests + "ID", "", "401 401 404= 404= 404= 200 404= 200"},
	{"request that waits", "GET", leaseapi.PathRequests + "WAITS?caller=victim", "", "401 401 404= 404= 404= 200 404= 200"},
	{"break", "POST", leaseapi.PathBreak, `{"name":"NAME","generation":GEN,"reason":"x","now":true}`, "401 401 403= 403= 403 403 404= 200!"},
	{"remove", "POST", leaseapi.PathRemove, `{"request_id":"WAITS","reason":"x"}`, "401 401 403= 403= 403 403 404= 200!"},
	{"move", "POST", leaseapi.PathMove, `{"request_id":"WAITS","priority":1,"reason":"x"}`, "401 401 403= 403= 403 403 404= 200!"},
	{"reserve", "POST", leaseapi.PathReserve, `{"name":"NAME","owner":"me","reason":"x"}`, "401 401 403= 403= 403 403 404= 200!"},
	{"pause", "POST", leaseapi.PathPause, `{"type":"TYPE","reason":"x"}`, "401 401 403= 403= 403 403 403= 200!"},
	{"resume", "POST", leaseapi.PathResume, `{"type":"TYPE"}`, "401 401 403= 403= 403 403 403= 200"},
	{"backup", "POST", leaseapi.PathBackup, "", "401 401 403 403 403 403 403 409"}, // there is no store
	{"pools", "GET", leaseapi.PathPools, "", "401 401 200 200 200 200 200 200"},
	{"metrics", "GET", leaseapi.PathMetrics, "", "401 401 403 200 403 200 403 200"},
	{"whoami", "GET", leaseapi.PathWhoami, "", "401 401 200 200 200 200 200 200"},
	{"health", "GET", leaseapi.PathHealth, "", "200 200 200 200 200 200 200 200"},
	{"ready", "GET", leaseapi.PathReady, "", "200 200 200 200 200 200 200 200"},
	{"look at the page", "", "/ui/pools/beta", "", "401 401 403 200 403 200 403 200"},
	{"look at a request", "", "/ui/requests/WAITS", "", "401 401 403 200 403 200 403 200"},
	{"pause on the page", "", "/ui/pause", "type=TYPE&reason=x", "401 401 403 403 403 403 403 303!"},
	{"remove on the page", "", "/ui/remove", "request=WAITS&caller=victim&reason=x", "401 401 403 403 403 403 403 303!"},
	{"look at all pools", "", "/", "", "401 401 403 200 403 200 403 200"},
	{"events", "", "/ui/events", "", "401 401 403 200 403 200 403 200"},
	{"find", "", "/ui/find?q=NAME", "", "401 401 403 200 403 200 403 200"},
	{"resume on the page", "", "/ui/resume", "type=TYPE&reason=x", "401 401 403 403 403 403 403 303"},
	{"move on the page", "", "/ui/move", "request=WAITS&caller=victim&priority=1&reason=x", "401 401 403 403 403 403 403 303!"},
	{"break on the page", "", "/ui/break", "name=NAME&generation=GEN&reason=x&now=on", "401 401 403 403 403 403 403 303!"},
	{"reserve on the page", "", "/ui/reserve", "type=TYPE&name=NAME&reason=x", "401 401 403 403 403 403 403 303!"},
	{"give back on the page", "", "/ui/give-back", "name=beta-1&reason=x", "401 401 403 403 403 403 403 303!"},
}

// Each cell of the table is as it says.
func TestRights(t *testing.T) {
	for _, row := range rights {
		for column, want := range strings.Fields(row.want) {
			who := whoAsks[column]
			// ask asks about what the names stand for, in a world of its own. The text is the answer
			// without these.
			ask := func(name, held, waits, typ string) (r reply, text string, changed bool) {
				v := startWithVictim(t)
				in := strings.NewReplacer("NAME", name, "GEN", num(v.lease.Generation), "ID", held, "WAITS", waits, "TYPE", typ)
				before := stateOf(v.pools())
				target, body := in.Replace(row.target), in.Replace(row.body)
				if row.method == "" {
					r = v.onPage(who, target, body)
				} else {
					r = v.as(who).do(row.method, target, body)
				}
				without := strings.NewReplacer(name, "-", held, "-", waits, "-", typ, "-", num(v.lease.Generation), "-")
				return r, without.Replace(withoutTimes(r.body)), stateOf(v.pools()) != before
			}
			r, text, changed := ask("beta-0", "held", "waits", "beta")
			got := fmt.Sprint(r.status)
			if strings.Contains(want, "=") {
				other, otherText, _ := ask("zeta-0", "nonesuch-1", "nonesuch-2", "zeta")
				if other.status == r.status && text == otherText {
					got += "="
				} else {
					t.Errorf("%s by %s: %s\nfor one that never was: %s", row.verb, who.name, r.body, other.body)
				}
			}
			if changed {
				got += "!"
			}
			if got != want {
				t.Errorf("%s by %s: %s, want %s: %s", row.verb, who.name, got, want, r.body)
			}
		}
	}
}

// Each route, and each operation that the page offers an admin, has a row in the table.
func TestRightsOfEachVerb(t *testing.T) {
	has := func(path string) bool {
		for _, row := range rights {
			if target, _, _ := strings.Cut(row.target, "?"); target == path {
				return true
			}
		}
		return false
	}
	for path := range routes {
		if !has(path) {
			t.Errorf("%s has no row", path)
		}
	}
	v := startWithVictim(t)
	admin := whoAsks[len(whoAsks)-1]
	var all strings.Builder
	for _, page := range []string{"/", "/ui/pools/beta", "/ui/requests/held?caller=victim", "/ui/requests/waits?caller=victim"} {
		all.WriteString(v.onPage(admin, page, "").body)
	}
	found := regexp.MustCompile(`"(/ui/[a-z-]+)["?]`).FindAllStringSubmatch(all.String(), -1)
	if len(found) < 5 {
		t.Errorf("the pages have %d links and forms", len(found))
	}
	for _, path := range found {
		switch path[1] {
		case "/ui/login", "/ui/logout", "/ui/live": // they go with each page
		default:
			if !has(path[1]) {
				t.Errorf("%s has no row", path[1])
			}
		}
	}
}

// withoutTimes returns an answer to an acquire without what differs from one server to the next.
func withoutTimes(body string) string {
	if _, stale, ok := strings.Cut(body, `"stale"`); ok && strings.Contains(body, `"expires_at"`) {
		_, reason, _ := strings.Cut(stale, `"reason"`)
		return reason
	}
	return body
}

// onPage signs i in, and asks for a page, or sends its form. If i is not let in, it is the answer to the
// sign-in.
func (v victim) onPage(i identity, target, form string) reply {
	b := &browser{peer: v.server}
	secret := i.secret()
	if i.name == "nobody" {
		secret = ""
	}
	r := b.ask("POST", "/ui/login", url.Values{"token": {secret}}.Encode())
	if r.status != 303 {
		return r
	}
	b.cookie, _, _ = strings.Cut(r.header.Get("Set-Cookie"), ";")
	if form == "" {
		return b.ask("GET", target, "")
	}
	return b.ask("POST", target, form)
}

// Overcommit is a right of a rule or a token, an admin has it, and on a server without tokens everybody.
func TestOvercommitIsARight(t *testing.T) {
	units := []pool.Config{{Type: "u", Units: 1, Overcommit: 2}}
	sum, err := auth.SumOf(callerSecret)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		auth *auth.Config
		want int
	}{
		"a job":                 {&auth.Config{Tokens: []auth.Token{{Name: "x", Sum: sum}}}, 403},
		"a job with the right":  {&auth.Config{Tokens: []auth.Token{{Name: "x", Sum: sum, Rights: auth.Rights{Overcommit: true}}}}, 200},
		"an admin":              {&auth.Config{Tokens: []auth.Token{{Name: "x", Sum: sum, Rights: auth.Rights{Role: auth.RoleAdmin}}}}, 200},
		"anybody without token": {nil, 200},
	} {
		p := withToken(start(t, Options{Pools: units, Auth: c.auth}), callerSecret)
		p.granted("type=u&request_id=full")
		r := p.acquire("type=u&request_id=over&overcommit=true&wait=0s")
		if r.status != c.want || c.want == 403 && !strings.Contains(r.body, "overcommit: true") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

// A caller gets no more than max_leases and max_waiters of its token, in words that say so; a client of
// version 1 in the words of an exhausted pool. Others of the pool are not concerned.
func TestShareOfAToken(t *testing.T) {
	one, err := auth.SumOf(callerSecret)
	if err != nil {
		t.Fatal(err)
	}
	const otherSecret = "secret-of-another-0123456789"
	other, err := auth.SumOf(otherSecret)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, Options{Pools: []pool.Config{quota(3)}, Auth: &auth.Config{Tokens: []auth.Token{
		{Name: "x", Sum: one, Rights: auth.Rights{Share: pool.Share{Leases: 3, Waiters: 1}}}, {Name: "y", Sum: other},
	}}})
	x, y := withToken(p, callerSecret), withToken(p, otherSecret)
	y.granted("type=q&request_id=a")
	x.granted("type=q&request_id=a&count=2")
	x.later(t.Context(), "type=q&request_id=b&wait=1h")
	x.waitingFor(1)
	for query, want := range map[string]string{
		"type=q&request_id=c":         leaseapi.ProblemShareUsed + "|max_leases: the caller holds 3 leases or waits for them, asks for 1 more, and may have 3",
		"type=q":                      leaseapi.TextExhausted + "|max_leases",
		"type=q&request_id=a&count=2": `"names":["q-1","q-2"]|"request_id":"a"`, // which it has
		"type=q&request_id=d&count=2": leaseapi.ProblemShareUsed + "|max_leases",
	} {
		r := x.acquire(query)
		for _, text := range strings.Split(want, "|") {
			if !strings.Contains(r.body, text) {
				t.Errorf("%s: %d %s, want %s", query, r.status, r.body, text)
			}
		}
	}
	x.release(`{"request_ids":["a"]}`)
	x.waitingFor(0) // b was granted
	x.later(t.Context(), "type=q&request_id=d&count=2&wait=1h")
	x.waitingFor(1)
	if r := x.acquire("type=q&request_id=e"); r.status != 503 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if who := decode[leaseapi.WhoamiReply](t, x.do("GET", leaseapi.PathWhoami, ""), 200); who.MaxLeases != 3 || who.MaxWaiters != 1 || who.Overcommit {
		t.Errorf("whoami: %+v", who)
	}
	y.granted("type=q&request_id=f") // it overtakes d, which wants two
}
