package proxyserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// The answers to reports.
func TestReportWire(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	p.granted("type=q&request_id=held")
	ctx := t.Context()
	waits := p.later(ctx, "type=q&request_id=waits&wait=1h")
	p.waitingFor(1)
	defer func() { p.stop(); <-waits }()
	runWire(t, p, []wireCase{
		{name: "no JSON", method: "POST", target: "/lease/report", send: `x`, status: 400, contentType: typeProblem,
			problem: leaseapi.ProblemBadRequest, body: "the body is not valid: invalid character 'x' looking for beginning of value"},
		{name: "no outcome", method: "POST", target: "/lease/report", send: `{"request_id":"held"}`, status: 400, contentType: typeProblem,
			problem: leaseapi.ProblemBadRequest, body: `outcome "": want ok or throttled`},
		{name: "no request", method: "POST", target: "/lease/report", send: `{"outcome":"ok"}`, status: 400, contentType: typeProblem,
			problem: leaseapi.ProblemBadRequest, body: "request_id is empty"},
		{name: "control characters", method: "POST", target: "/lease/report", send: `{"request_id":"held","outcome":"ok","detail":"a\u0007"}`, status: 400, contentType: typeProblem,
			problem: leaseapi.ProblemBadRequest, body: `detail "a\a" contains '\a'`},
		{name: "not known", method: "POST", target: "/lease/report", send: `{"request_id":"x","outcome":"ok"}`, status: 404, contentType: typeProblem,
			problem: leaseapi.ProblemUnknownRequest, body: "no request x is known"},
		{name: "waits", method: "POST", target: "/lease/report", send: `{"request_id":"waits","outcome":"ok"}`, status: 409, contentType: typeProblem,
			problem: leaseapi.ProblemNoLease, body: "the request has no lease, and had none"},
		{name: "by GET", method: "GET", target: "/lease/report", status: 405, contentType: typeProblem, allow: "POST",
			problem: leaseapi.ProblemMethod, body: "/lease/report takes POST, not GET"},
		{name: "counts", method: "POST", target: "/lease/report", send: `{"request_id":"held","outcome":"throttled","detail":"slow down"}`,
			status: 200, contentType: typeJSON, body: `{"counts":true}`},
		{name: "again", method: "POST", target: "/lease/report", send: `{"request_id":"held","outcome":"ok"}`,
			status: 200, contentType: typeJSON, body: `{"counts":false}`},
	})
}

// Only the token of a lease may report on it, also when the lease has ended, and with its
// release. A report that is not allowed or not valid never fails a release.
func TestReportsTakeTheTokenOfTheLease(t *testing.T) {
	opts := durable(t, t.TempDir(), 2)
	opts.Pools[0].Adapt = &pool.Adapt{}
	p, red, blue, ops := startWithTokens(t, opts)
	r := red.granted("type=q&request_id=r&owner=me")
	b := blue.granted("type=q&request_id=b&owner=me")
	const throttled = `{"request_id":"r","outcome":"throttled","detail":"no"}`
	eye := withToken(p, "e-token-0123456789")
	forbidden := func() {
		t.Helper()
		for _, who := range []*peer{blue, ops} { // to them it is a request that never was
			if pr := decode[leaseapi.Problem](t, who.do("POST", "/lease/report", throttled), 404); pr.Type != leaseapi.ProblemUnknownRequest {
				t.Errorf("%+v", pr)
			}
		}
		if r := eye.do("POST", "/lease/report", throttled); r.status != 403 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	forbidden()
	for _, said := range []string{throttled, `{"request_id":"b","outcome":"slow"}`, `{"outcome":"ok"}`} {
		got := blue.release(fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"report":%s}`, b.Names[0], b.Leases[0].Generation, said))
		if got.status != 200 {
			t.Errorf("a release with %s: %d %s", said, got.status, got.body)
		}
	}
	if pool := red.pools()[0]; pool.Limit != 0 || len(pool.Tally) != 0 || pool.InUse != 1 {
		t.Errorf("the pool is %+v", pool)
	}
	red.release(fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"report":{"request_id":"r","outcome":"ok"}}`, r.Names[0], r.Leases[0].Generation))
	forbidden()
	if got := decode[leaseapi.ReportReply](t, red.do("POST", "/lease/report", throttled), 200); !got.Counts {
		t.Error("it does not count")
	}
	pool := red.pools()[0]
	if m := pool.Moved; pool.Limit != 1 || pool.Wall != 2 || !pool.Adapt || m == nil ||
		m.From != 2 || m.To != 1 || m.Owner != "me" || m.Token != "red" || m.Detail != "no" {
		t.Errorf("the pool is %+v, moved %+v", pool, pool.Moved)
	}
	if len(pool.Tally) != 1 || pool.Tally[0] != (leaseapi.Tally{Limit: 2, Throttled: 1}) {
		t.Errorf("the tally is %+v", pool.Tally)
	}
	metrics := red.do("GET", "/metrics", "").body
	for _, line := range []string{
		`leasectl_limit{type="q"} 1`, `leasectl_reports_total{type="q",outcome="ok"} 1`, `leasectl_reports_total{type="q",outcome="throttled"} 1`,
		`leasectl_limit_moves_total{type="q",how="cut"} 1`, `leasectl_limit_moves_total{type="q",how="rise"} 0`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
}
