package proxyserver

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

const (
	typeText    = "text/plain; charset=utf-8"
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
)

// wireCase is one exchange. The cases of a table go to one server, in order.
type wireCase struct {
	name, method, target, send string

	status      int
	contentType string
	body        string // exactly; with a problem: its detail
	problem     string
	allow       string
}

func runWire(t *testing.T, p *peer, cases []wireCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := p.do(c.method, c.target, c.send)
			if r.status != c.status || r.header.Get("Content-Type") != c.contentType || r.header.Get("Allow") != c.allow {
				t.Errorf("status %d, type %q, allow %q, want %d, %q, %q", r.status,
					r.header.Get("Content-Type"), r.header.Get("Allow"), c.status, c.contentType, c.allow)
			}
			if c.contentType == typeText && r.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Error("a text error is not as http.Error writes it")
			}
			if r.header.Get(leaseapi.HeaderStore) == "" {
				t.Error("the answer does not say of which store it is")
			}
			if retry := r.header.Get("Retry-After"); (retry != "") != (c.status == http.StatusServiceUnavailable) {
				t.Errorf("Retry-After %q with status %d", retry, c.status)
			}
			if c.problem == "" {
				if r.body != c.body {
					t.Errorf("body %q, want %q", r.body, c.body)
				}
				return
			}
			pr := decode[leaseapi.Problem](t, r, c.status)
			if pr.Type != c.problem || pr.Status != c.status || pr.Title == "" || pr.Detail != c.body {
				t.Errorf("problem %+v, want %s: %s", pr, c.problem, c.body)
			}
		})
	}
}

func TestVersion1(t *testing.T) {
	const acquire, release = "/lease/acquire", "/lease/release"
	p := start(t, Options{Pools: []pool.Config{quota(3), {Type: `a "b"`, Names: []string{"x"}}}})
	runWire(t, p, []wireCase{
		{name: "one", method: "POST", target: acquire + "?type=q", status: 200, contentType: typeJSON, body: `{"names":["q-0"]}`},
		{name: "several", method: "POST", target: acquire + "?type=q&count=2", send: "ignored", status: 200, contentType: typeJSON, body: `{"names":["q-1","q-2"]}`},
		{name: "none", method: "POST", target: acquire + "?type=q&count=0", status: 200, contentType: typeJSON, body: `{"names":[]}`},
		{name: "none of no such type", method: "POST", target: acquire + "?type=zzz&count=0", status: 200, contentType: typeJSON, body: `{"names":[]}`},
		{name: "none of no type", method: "POST", target: acquire + "?count=0", status: 400, contentType: typeText, body: "type is required\n"},
		{name: "count is looked at before the type exists", method: "POST", target: acquire + "?type=zzz&count=x", status: 400, contentType: typeText, body: "parameter \"count\" is not valid: x\n"},
		{name: "negative count", method: "POST", target: acquire + "?type=q&count=-1", status: 400, contentType: typeText, body: "parameter \"count\" is not valid: -1\n"},
		{name: "count with sign", method: "POST", target: acquire + "?type=q&count=%2B1", status: 400, contentType: typeText, body: "parameter \"count\" is not valid: +1\n"},
		{name: "count too long", method: "POST", target: acquire + "?type=q&count=18446744073709551616", status: 400, contentType: typeText, body: "parameter \"count\" is not valid: 18446744073709551616\n"},
		{name: "greatest count", method: "POST", target: acquire + "?type=q&count=18446744073709551615", status: 400, contentType: typeText, body: "Failed to acquire lease \"q\": the pool can never give that many: 9223372036854775807 asked for, 3 there\n"},
		{name: "above the capacity", method: "POST", target: acquire + "?type=q&count=4", status: 400, contentType: typeText, body: "Failed to acquire lease \"q\": the pool can never give that many: 4 asked for, 3 there\n"},
		{name: "no type", method: "POST", target: acquire, status: 400, contentType: typeText, body: "type is required\n"},
		{name: "unknown type", method: "POST", target: acquire + "?type=a%0A%22", status: 404, contentType: typeText, body: "Failed to acquire lease \"a\\n\\\"\": resource type not found\n"},
		{name: "acquire by GET", method: "GET", target: acquire + "?type=q", status: 405, contentType: typeText, allow: "POST", body: "Method GET not allowed, POST requests only.\n"},
		{name: "release by PUT", method: "PUT", target: release, send: `{"names":[]}`, status: 405, contentType: typeText, allow: "POST", body: "Method PUT not allowed, POST requests only.\n"},
		{name: "release", method: "POST", target: release, send: `{"names":["q-0","q-1"]}`, status: 204},
		{name: "release what is free", method: "POST", target: release, send: `{"names":["q-0"]}`, status: 204},
		{name: "release nothing", method: "POST", target: release, send: `{"names":[]}`, status: 204},
		{name: "release nothing at all", method: "POST", target: release, send: `{}`, status: 204},
		{name: "release what never was", method: "POST", target: release, send: `{"names":["zzz"]}`, status: 500, contentType: typeText, body: "Failed to release lease zzz: no resource name: the server has never had it\nReleased: \n"},
		{name: "release half of it", method: "POST", target: release, send: `{"names":["q-2","x","zzz","q-0"]}`, status: 500, contentType: typeText, body: "Failed to release lease zzz: no resource name: the server has never had it\nReleased: q-2 x\n"},
		{name: "bad JSON", method: "POST", target: release, send: `{"names"`, status: 400, contentType: typeText, body: "the body is not valid: unexpected end of JSON input\n"},
		{name: "no JSON", method: "POST", target: release, status: 400, contentType: typeText, body: "the body is not valid: unexpected end of JSON input\n"},
		{name: "two values", method: "POST", target: release, send: `{} {}`, status: 400, contentType: typeText, body: "the body is not valid: invalid character '{' after top-level value\n"},
	})
	if n := p.inUse(); n != 0 {
		t.Errorf("%d leases are held at the end", n)
	}
}

func TestVersion1Exhausted(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}, MaxWait: 1})
	p.acquire("type=q")
	r := p.acquire("type=q")
	const prefix = `Failed to acquire lease "q": resources not found`
	if r.status != 500 || !strings.HasPrefix(r.body, prefix) || !strings.Contains(r.body, "resource not found") || !strings.HasSuffix(r.body, "\n") {
		t.Errorf("status %d, body %q", r.status, r.body)
	}
}

func TestOursWire(t *testing.T) {
	const acquire, release, renew = "/lease/acquire", "/lease/release", "/lease/renew"
	long := strings.Repeat("x", 513)
	p := start(t, Options{Version: "v1.2.3", Pools: []pool.Config{quota(2), {Type: "full", Names: []string{"f"}, MaxWaiters: 1}}})
	bad := leaseapi.ProblemBadRequest
	p.granted("type=q&request_id=mine&owner=me")
	p.granted("type=q&request_id=over")
	p.release(`{"request_ids":["over"]}`)
	p.granted("type=full")
	p.later(t.Context(), "type=full")
	eventually(t, func() bool { return p.pools()[1].Waiting == 1 })
	p.server.handler.storeID = func() string { return "ID" }
	runWire(t, p, []wireCase{
		{name: "bad wait", method: "POST", target: acquire + "?type=q&wait=1", status: 400, contentType: typeProblem, problem: bad, body: `the body is not valid: time: missing unit in duration "1"`},
		{name: "negative wait", method: "POST", target: acquire + "?type=q&wait=-1s", status: 400, contentType: typeProblem, problem: bad, body: `parameter "wait" is not valid: -1s is negative`},
		{name: "bad ttl", method: "POST", target: acquire + "?type=q&ttl=x", status: 400, contentType: typeProblem, problem: bad, body: `the body is not valid: time: invalid duration "x"`},
		{name: "short ttl", method: "POST", target: acquire + "?type=q&ttl=999ms", status: 400, contentType: typeProblem, problem: bad, body: `parameter "ttl" is not valid: ttl 999ms is too short: a lease lasts 1s at least`},
		{name: "long owner", method: "POST", target: acquire + "?type=q&owner=" + long, status: 400, contentType: typeProblem, problem: bad, body: `owner "xxxxxxxxxxxxxxxxxxxx"… is 513 bytes long: at most 512`},
		{name: "owner with newline", method: "POST", target: acquire + "?type=q&owner=a%0Ab", status: 400, contentType: typeProblem, problem: bad, body: `owner "a\nb" contains '\n'`},
		{name: "owner not UTF-8", method: "POST", target: acquire, send: "{\"type\":\"q\",\"owner\":\"\xff\"}", status: 400, contentType: typeProblem, problem: bad, body: "the body is not valid UTF-8"},
		{name: "empty request id", method: "POST", target: acquire + "?type=q&request_id=", status: 400, contentType: typeProblem, problem: bad, body: "request_id is empty"},
		{name: "id of a request that has none", method: "POST", target: acquire + "?type=q&request_id=%001", status: 400, contentType: typeProblem, problem: bad, body: `request_id "\x001" contains '\x00'`},
		{name: "long request id", method: "POST", target: acquire + "?type=q&request_id=" + long, status: 400, contentType: typeProblem, problem: bad, body: `request_id "xxxxxxxxxxxxxxxxxxxx"… is 513 bytes long: at most 128`},
		{name: "what version 1 knows stays text", method: "POST", target: acquire + "?type=zzz&request_id=new", status: 404, contentType: typeText, body: "Failed to acquire lease \"zzz\": resource type not found\n"},
		{name: "another request", method: "POST", target: acquire + "?type=q&request_id=mine&owner=you", status: 409, contentType: typeProblem, problem: leaseapi.ProblemConflict, body: "the request id stands for another request"},
		{name: "ended", method: "POST", target: acquire + "?type=q&request_id=over", status: 410, contentType: typeProblem, problem: leaseapi.ProblemEnded, body: "the request has ended or was cancelled"},
		{name: "queue full, in the words of version 1", method: "POST", target: acquire + "?type=full", status: 503, contentType: typeText, body: "Failed to acquire lease \"full\": resources not found: resource not found: too many requests wait for this pool: 1 do\n"},
		{name: "queue full", method: "POST", target: acquire + "?type=full&owner=me", status: 503, contentType: typeProblem, problem: leaseapi.ProblemQueueFull, body: "too many requests wait for this pool: 1 do"},
		{name: "not at once", method: "POST", target: acquire + "?type=full&wait=0", status: 503, contentType: typeProblem, problem: leaseapi.ProblemExhausted, body: "no lease was free within the wait"},

		{name: "release a free name by owner", method: "POST", target: release, send: `{"names":["q-1"],"owner":"me"}`, status: 200, contentType: typeJSON, body: `{"released":["q-1"],"over":[{"name":"q-1","generation":0,"reason":"released"}]}`},
		{name: "release another's", method: "POST", target: release, send: `{"names":["q-0"],"owner":"you"}`, status: 200, contentType: typeJSON, body: `{"released":[],"stale":[{"name":"q-0","generation":0,"reason":"held-by-other"}]}`},
		{name: "release stale", method: "POST", target: release, send: `{"leases":[{"name":"q-0","generation":1},{"name":"q-1","generation":1},{"name":"zzz","generation":1}]}`, status: 200, contentType: typeJSON,
			body: `{"released":["q-1"],"stale":[{"name":"q-0","generation":1,"reason":"held-by-other"},{"name":"zzz","generation":1,"reason":"unknown"}],"over":[{"name":"q-1","generation":1,"reason":"held-by-other"}]}`},
		{name: "release no leases", method: "POST", target: release, send: `{"leases":[]}`, status: 200, contentType: typeJSON, body: `{"released":[]}`},
		{name: "release without generation", method: "POST", target: release, send: `{"leases":[{"name":"q-0"}]}`, status: 400, contentType: typeProblem, problem: bad, body: `lease "q-0" has no generation`},
		{name: "release unseen", method: "POST", target: release, send: `{"request_ids":["unseen"]}`, status: 200, contentType: typeJSON, body: `{"released":[]}`},
		{name: "acquire it then", method: "POST", target: acquire + "?type=q&request_id=unseen", status: 410, contentType: typeProblem, problem: leaseapi.ProblemEnded, body: "the request has ended or was cancelled"},
		{name: "delay with ids", method: "POST", target: release, send: `{"request_ids":["mine"],"delay":"1s"}`, status: 400, contentType: typeProblem, problem: bad, body: "delay does not go with request_ids"},
		{name: "negative delay", method: "POST", target: release, send: `{"names":["q-0"],"delay":"-1s"}`, status: 400, contentType: typeProblem, problem: bad, body: "delay -1s is negative"},
		{name: "bad owner", method: "POST", target: release, send: `{"names":["q-0"],"owner":"\n"}`, status: 400, contentType: typeProblem, problem: bad, body: `owner "\n" contains '\n'`},
		{name: "bad id", method: "POST", target: release, send: `{"request_ids":[""]}`, status: 400, contentType: typeProblem, problem: bad, body: "request_id is empty"},
		{name: "delay what never was", method: "POST", target: release, send: `{"names":["zzz"],"delay":"1s"}`, status: 500, contentType: typeText, body: "Failed to release lease zzz: no resource name: the server has never had it\nReleased: \n"},
		{name: "too large", method: "POST", target: release, send: `{"names":["` + strings.Repeat("x", leaseapi.MaxBody) + `"]}`, status: 413, contentType: typeProblem, problem: bad, body: "the body has more than 1048576 bytes"},
		{name: "too large a body of an acquire", method: "POST", target: acquire + "?type=q", send: strings.Repeat("x", leaseapi.MaxBody+1), status: 413, contentType: typeProblem, problem: bad, body: "the body has more than 1048576 bytes"},

		{name: "renew nothing", method: "POST", target: renew, send: `{}`, status: 400, contentType: typeProblem, problem: bad, body: "leases is empty"},
		{name: "renew bad JSON", method: "POST", target: renew, send: `[]`, status: 400, contentType: typeProblem, problem: bad, body: "the body is not valid: json: cannot unmarshal array into Go value of type leaseapi.RenewRequest"},
		{name: "renew bad ttl", method: "POST", target: renew, send: `{"leases":[{"name":"q-0","generation":1}],"ttl":"-1s"}`, status: 400, contentType: typeProblem, problem: bad, body: "ttl -1s is negative"},
		{name: "renew for less than a second", method: "POST", target: renew, send: `{"leases":[{"name":"q-0","generation":1}],"ttl":"1ns"}`, status: 400, contentType: typeProblem, problem: bad, body: "ttl 1ns is too short: a lease lasts 1s at least"},
		{name: "renew without generation", method: "POST", target: renew, send: `{"leases":[{"name":"q-0"}]}`, status: 400, contentType: typeProblem, problem: bad, body: `lease "q-0" has no generation`},
		{name: "renew by GET", method: "GET", target: renew, status: 405, contentType: typeProblem, problem: leaseapi.ProblemMethod, allow: "POST", body: "/lease/renew takes POST, not GET"},

		{name: "ended request", method: "GET", target: "/lease/requests/over", status: 200, contentType: typeJSON, body: `{"request_id":"over","state":"ended"}`},
		{name: "unknown request", method: "GET", target: "/lease/requests/a%7Eb", status: 404, contentType: typeProblem, problem: leaseapi.ProblemUnknownRequest, body: "no request a~b is known"},
		{name: "request id with a slash", method: "GET", target: "/lease/requests/a%2Fb", status: 400, contentType: typeProblem, problem: bad, body: `request_id "a/b" contains '/'`},
		{name: "request id that is a path", method: "POST", target: acquire + "?type=q&request_id=..", status: 400, contentType: typeProblem, problem: bad, body: `request_id ".." begins with a dot`},
		{name: "no request", method: "GET", target: "/lease/requests/", status: 400, contentType: typeProblem, problem: bad, body: "request_id is empty"},
		{name: "health", method: "GET", target: "/healthz", status: 200, contentType: typeJSON, body: `{"status":"ok","wire":2,"version":"v1.2.3","durable":false,"store":"ID"}`},
		{name: "health by HEAD", method: "HEAD", target: "/healthz", status: 200, contentType: typeJSON},
		{name: "health by POST", method: "POST", target: "/healthz", status: 405, contentType: typeProblem, problem: leaseapi.ProblemMethod, allow: "GET", body: "/healthz takes GET, not POST"},
		{name: "nothing there", method: "GET", target: "/nothing", status: 404, contentType: typeProblem, problem: leaseapi.ProblemNotFound, body: "there is nothing at /nothing"},
		{name: "an unclean path is no redirect", method: "POST", target: "//lease/acquire?type=q", status: 404, contentType: typeProblem, problem: leaseapi.ProblemNotFound, body: "there is nothing at //lease/acquire"},
	})
	if pools := p.pools(); pools[0].InUse != 1 || pools[0].Leases[0].Owner != "me" {
		t.Errorf("pools %+v, want only the lease of me", pools)
	}
}

// postBodies are what the calls that are POSTs read, by their paths.
var postBodies = map[string]any{
	leaseapi.PathAcquire: leaseapi.AcquireRequest{},
	leaseapi.PathRelease: leaseapi.ReleaseRequest{},
	leaseapi.PathRenew:   leaseapi.RenewRequest{},
	leaseapi.PathResize:  leaseapi.ResizeRequest{},
	leaseapi.PathReport:  leaseapi.ReportRequest{},
	leaseapi.PathBreak:   leaseapi.BreakRequest{},
	leaseapi.PathRemove:  leaseapi.RemoveRequest{},
	leaseapi.PathMove:    leaseapi.MoveRequest{},
	leaseapi.PathReserve: leaseapi.ReserveRequest{},
	leaseapi.PathPause:   leaseapi.PauseRequest{},
	leaseapi.PathResume:  leaseapi.ResumeRequest{},
	leaseapi.PathBackup:  struct{}{},
}

// withUnknown returns bodies of that type, each with a field "tides" in another of its objects.
func withUnknown(of reflect.Type) []string {
	all := []string{`{"tides":1}`}
	for _, f := range reflect.VisibleFields(of) {
		if f.Anonymous {
			continue // its fields are there, too
		}
		inner, open, end := f.Type, "", ""
		if inner.Kind() == reflect.Slice {
			inner, open, end = inner.Elem(), "[", "]"
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		for _, nested := range withUnknown(inner) {
			all = append(all, fmt.Sprintf(`{"%s":%s%s%s}`, name, open, nested, end))
		}
	}
	return all
}

// No call does a part of what it is asked for: each refuses parameters and fields that it does not know,
// and parameters that are there twice, and names them.
func TestUnknownIsRefused(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(2)}})
	refused := func(t *testing.T, method, target, body, what string) {
		t.Helper()
		r := p.do(method, target, body)
		if got := decode[leaseapi.Problem](t, r, 400); got.Type != leaseapi.ProblemBadRequest || !strings.Contains(got.Detail, what) {
			t.Errorf("%s %s with %q: %s, want %s", method, target, body, r.body, what)
		}
	}
	refused(t, "POST", leaseapi.PathAcquire, "\r\n {\"typ\":\"q\"}", "typ") // ours, as a script may indent it
	all := maps.Clone(routes)
	all[leaseapi.PathRequests+"id"] = requestRoute
	for path, rt := range all {
		t.Run(path, func(t *testing.T) {
			query, parameters := "?", rt.parameters
			if path == leaseapi.PathAcquire {
				query, parameters = "?type=q&type=q&", []string{leaseapi.ParamAsk} // the first type counts, as in version 1
			}
			switch path {
			case leaseapi.PathHealth, leaseapi.PathReady, leaseapi.PathMetrics:
				if r := p.do(rt.method, path+"?tides=high", ""); r.status != 200 {
					t.Errorf("status %d, body %q, want 200", r.status, r.body)
				}
				return
			}
			refused(t, rt.method, path+query+"tides=high", "", `unknown parameter "tides"`)
			for _, name := range parameters {
				upper := strings.ToUpper(name)
				refused(t, rt.method, path+query+upper+"=1", "", `unknown parameter "`+upper+`"`)
				refused(t, rt.method, path+query+name+"=1&"+name+"=1", "", `parameter "`+name+`" is there `)
			}
			if rt.method != http.MethodPost {
				return
			}
			body, ok := postBodies[path]
			if !ok {
				t.Fatal("which body does it read?")
			}
			for _, body := range withUnknown(reflect.TypeOf(body)) {
				refused(t, rt.method, path, body, `unknown field "tides"`)
			}
		})
	}
	if n := p.inUse(); n != 0 {
		t.Errorf("%d leases are held", n)
	}
}

// An answer has more than that of version 1 only for what version 1 does not have, and does so for each
// field and parameter.
func TestBeyondVersion1(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(2)}})
	for _, tt := range []struct {
		path, body string
		status     int
		answer     string
	}{
		{leaseapi.PathAcquire + "?type=q&type=x&count=1&count=2", `{"tides":1}`, 200, `{"names":["q-0"]}`},
		{leaseapi.PathRelease, `{"Names":["q-0"],"names":["q-0"]}`, 204, ""},
		{leaseapi.PathAcquire, `{"type":"q"}`, 200, `"generation"`},
		{leaseapi.PathRelease, `{"names":["q-0"]}`, 204, ""},
		{leaseapi.PathAcquire + `?type=x&count=7&ask={"type":"q"}`, "{}", 200, `"generation"`},
		{leaseapi.PathAcquire + `?ask={"type":"q"}`, `{"owner":"me"}`, 400, `unknown field \"owner\"`},
		{leaseapi.PathRelease, `{"names":["q-0"],"leases":[]}`, 200, `{"released":["q-0"]`},
		{leaseapi.PathRelease, `{"names":["q-0"],"report":{"request_id":"r","outcome":"ok"}}`, 200, `{"released":["q-0"]`},
	} {
		if r := p.do("POST", tt.path, tt.body); r.status != tt.status || !strings.Contains(r.body, tt.answer) {
			t.Errorf("%s with %q: %d %s, want %d %s", tt.path, tt.body, r.status, r.body, tt.status, tt.answer)
		}
	}
}
