package proxyserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
	"github.com/leasectl/leasectl/leaseapi"
)

// memoryPool is a counted pool of 1,024 units. An item costs a fifth of a unit.
func memoryPool(t testing.TB) pool.Config {
	t.Helper()
	base, err := pool.ParseDecimal("128")
	if err != nil {
		t.Fatal(err)
	}
	item, err := pool.ParseDecimal("0.2")
	if err != nil {
		t.Fatal(err)
	}
	return pool.Config{
		Type: "mem", Units: 1024, Unit: "1Mi", Overcommit: 100, Unknown: 512,
		Cost: &pool.Cost{Base: base, PerItem: item, RoundTo: 32, Min: 128},
	}
}

// Requests of counted pools, and others with their parameters, that are refused.
func TestUnitsRefused(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{memoryPool(t), quota(2)}})
	failed := func(typ, why string) string { return fmt.Sprintf("Failed to acquire lease %q: %s\n", typ, why) }
	runWire(t, p, []wireCase{
		{name: "items and count", method: "POST", target: "/lease/acquire?type=mem&count=1&items=1", status: 400, contentType: typeProblem,
			problem: leaseapi.ProblemBadRequest, body: "count does not go with items: items are what units are made of"},
		{name: "items of a type without cost", method: "POST", target: "/lease/acquire?type=q&items=1", status: 400, contentType: typeText,
			body: failed("q", pool.ErrNoCost.Error())},
		{name: "negative items", method: "POST", target: "/lease/acquire?type=mem&items=-1", status: 400, contentType: typeProblem,
			problem: leaseapi.ProblemBadRequest, body: "items -1: want 0 to 1073741824"},
		{name: "empty key", method: "POST", target: "/lease/acquire?type=mem&key=", status: 400, contentType: typeProblem,
			problem: leaseapi.ProblemBadRequest, body: "key is empty"},
		{name: "overcommit of letters", method: "POST", target: "/lease/acquire?type=mem&overcommit=yes", status: 400, contentType: typeProblem,
			problem: leaseapi.ProblemBadRequest, body: "the body is not valid: json: cannot unmarshal string into Go struct field AcquireRequest.Ask.overcommit of type bool"},
		{name: "overcommit of names", method: "POST", target: "/lease/acquire?type=q&overcommit=true", status: 400, contentType: typeText,
			body: failed("q", pool.ErrNamesOvercommit.Error())},
		{name: "more than there is", method: "POST", target: "/lease/acquire?type=mem&count=1025", status: 400, contentType: typeText,
			body: failed("mem", "the pool can never give that many: 1025 asked for, 1024 there")},
		{name: "nothing at all", method: "POST", target: "/lease/acquire?type=mem&count=0", status: 200, contentType: typeJSON, body: `{"names":[]}`},
		{name: "resize without a lease", method: "POST", target: "/lease/resize", send: `{"name":"mem-9","generation":9,"from":1,"count":2}`,
			status: 410, contentType: typeProblem, problem: leaseapi.ProblemLost, body: "the lease is lost: unknown"},
		{name: "resize to both", method: "POST", target: "/lease/resize", send: `{"name":"mem-9","generation":9,"from":1,"count":2,"items":1}`,
			status: 400, contentType: typeProblem, problem: leaseapi.ProblemBadRequest, body: "want one of count and items"},
		{name: "resize of no generation", method: "POST", target: "/lease/resize", send: `{"name":"mem-9","from":1,"count":2}`,
			status: 400, contentType: typeProblem, problem: leaseapi.ProblemBadRequest, body: `lease "mem-9" has no generation`},
		{name: "resize after less than none", method: "POST", target: "/lease/resize", send: `{"name":"mem-9","generation":9,"from":1,"count":2,"after":-1}`,
			status: 400, contentType: typeProblem, problem: leaseapi.ProblemBadRequest, body: "count, from and after must not be negative"},
		{name: "resize by GET", method: "GET", target: "/lease/resize", status: 405, contentType: typeProblem, allow: "POST",
			problem: leaseapi.ProblemMethod, body: "/lease/resize takes POST, not GET"},
	})
	if n := p.inUse(); n != 0 {
		t.Errorf("%d in use after nothing but refusals", n)
	}
}

// How many names and units a request gets of each kind of pool.
func TestUnitsOfRequests(t *testing.T) {
	for _, tt := range []struct {
		query        string
		names, units int
	}{
		{"type=mem&count=7", 1, 7},
		{"type=mem&count=1", 1, 1},
		{"type=mem", 1, 512},
		{"type=mem&items=200", 1, 192},
		{"type=mem&items=0", 1, 128},
		{"type=q&count=2", 2, 0},
		{"type=q", 1, 0},
	} {
		p := start(t, Options{Pools: []pool.Config{memoryPool(t), quota(2)}})
		r := p.granted(tt.query + "&request_id=a")
		if len(r.Names) != tt.names || r.Leases[0].Units != tt.units {
			t.Errorf("%s: %+v", tt.query, r)
		}
		again := p.granted(tt.query + "&request_id=a")
		if fmt.Sprint(again.Leases) != fmt.Sprint(r.Leases) {
			t.Errorf("%s: %+v, and asked again %+v", tt.query, r.Leases, again.Leases)
		}
		if other := p.acquire(tt.query + "&request_id=a&key=k"); other.status != 409 {
			t.Errorf("%s: with a key it is another request, and got %d", tt.query, other.status)
		}
		state := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/a", ""), 200)
		if fmt.Sprint(state.Leases) != fmt.Sprint(r.Leases) {
			t.Errorf("%s: granted %+v, and its state has %+v", tt.query, r.Leases, state.Leases)
		}
		p.stop()
	}
	p := start(t, Options{Pools: []pool.Config{memoryPool(t), quota(2)}})
	for query, names := range map[string]int{"type=mem&count=3": 3, "type=mem": 1, "type=q&count=2": 2} { // of version 1
		if got := decode[leaseapi.AcquireReply](t, p.acquire(query), 200); len(got.Names) != names || got.Leases != nil {
			t.Errorf("%s: %+v", query, got)
		}
	}
}

// A request that does not wait gets the state of the queue with its refusal.
func TestRefusalTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		old := p.granted("type=q&owner=first&request_id=a")
		body := withLeases(old.Leases[0])
		p.do("POST", "/lease/renew", body)
		time.Sleep(20 * time.Second)
		p.release(body)
		p.granted("type=q&owner=holder&request_id=b&key=k")
		time.Sleep(5 * time.Second)
		r := p.acquire("type=q&request_id=c&wait=0s&key=other")
		pr := decode[leaseapi.Problem](t, r, 503)
		q := pr.Queued
		if pr.Type != leaseapi.ProblemExhausted || q == nil || q.Place != 1 || q.Length != 1 || q.InUse != 1 || q.Capacity != 1 ||
			q.Reason.Kind != leaseapi.WaitFull || q.Oldest == nil || q.Oldest.Owner != "holder" || q.Oldest.Age != leaseapi.Duration(5*time.Second) ||
			q.Estimate != leaseapi.Duration(15*time.Second) || q.Page != "" {
			t.Errorf("%s", r.body)
		}
		if r.header.Get("Retry-After") == "" {
			t.Error("it does not say when to try again")
		}
		r = p.acquire("type=q&request_id=d&wait=0s&key=k")
		if q := decode[leaseapi.Problem](t, r, 503).Queued; q == nil || q.Reason.String() != "key held by holder" {
			t.Errorf("%s", r.body)
		}
		if pl := p.pools()[0]; pl.Waiting != 0 {
			t.Errorf("%d wait", pl.Waiting)
		}
		if metrics := p.do("GET", "/metrics", "").body; !strings.Contains(metrics, `leasectl_refusals_total{type="q",reason="exhausted"} 2`) {
			t.Error("the refusals are not counted")
		}
		p.stop()
	})
}

// A lease grows and shrinks, and a late copy of a resize changes nothing.
func TestResize(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{memoryPool(t), quota(1)}})
	l := p.granted("type=mem&count=512&request_id=a&owner=me").Leases[0]
	p.granted("type=mem&count=256&request_id=b")
	name := p.granted("type=q&request_id=c").Leases[0]
	resize := func(l leaseapi.Lease, from int, to string) reply {
		return p.do("POST", "/lease/resize", fmt.Sprintf(`{"name":%q,"generation":%d,"from":%d,%s}`, l.Name, l.Generation, from, to))
	}
	resized := func(from int, to string, want int) {
		t.Helper()
		if got := decode[leaseapi.ResizeReply](t, resize(l, from, to), 200).Units; got != want {
			t.Errorf("from %d to %s: %d units, want %d", from, to, got, want)
		}
		if pl := p.pools()[0]; pl.InUse != want+256 || pl.Leases[0].Units != want {
			t.Errorf("%d in use, the lease has %d, want %d", pl.InUse, pl.Leases[0].Units, want)
		}
	}
	refused := func(r reply, status int, want leaseapi.Problem) {
		t.Helper()
		pr := decode[leaseapi.Problem](t, r, status)
		if pr.Type != want.Type || pr.Need != want.Need || pr.Free != want.Free || pr.Held != want.Held || want.Resizes > 0 && pr.Resizes != want.Resizes || pr.Keeps != want.Keeps || pr.Title == "" {
			t.Errorf("%s, want %+v", r.body, want)
		}
	}
	resized(512, `"count":768`, 768)
	resized(512, `"count":768`, 768) // a second copy
	resized(768, `"after":1,"items":10`, 160)
	refused(resize(l, 160, `"after":0,"count":768`), 409, leaseapi.Problem{Type: leaseapi.ProblemStale, Held: 160, Resizes: 2})
	refused(resize(l, 512, `"count":768`), 409, leaseapi.Problem{Type: leaseapi.ProblemStale, Held: 160}) // a late copy
	refused(resize(l, 160, `"count":769`), 409, leaseapi.Problem{Type: leaseapi.ProblemNoRoom, Need: 609, Free: 608, Held: 160})
	refused(resize(l, 160, `"after":2,"count":159`), 409, leaseapi.Problem{Type: leaseapi.ProblemStale, Held: 160, Resizes: 3})
	refused(resize(l, 160, `"count":1025`), 400, leaseapi.Problem{Type: leaseapi.ProblemTooMany, Held: 160})
	refused(resize(name, 1, `"count":2`), 409, leaseapi.Problem{Type: leaseapi.ProblemNotCounted, Held: 1})
	refused(resize(name, 1, `"items":2`), 409, leaseapi.Problem{Type: leaseapi.ProblemNotCounted, Held: 1})
	p.do("POST", "/pools/pause", `{"type":"mem","reason":"moving"}`)
	refused(resize(l, 160, `"count":161`), 409, leaseapi.Problem{Type: leaseapi.ProblemNoRoom, Need: 1, Free: 608, Held: 160, Keeps: leaseapi.WaitReason{Kind: leaseapi.WaitPaused, Text: "moving"}})
	resized(160, `"count":159`, 159)
	p.release(withLeases(l))
	refused(resize(l, 159, `"count":200`), 410, leaseapi.Problem{Type: leaseapi.ProblemLost})
	refused(resize(l, 159, `"items":200`), 410, leaseapi.Problem{Type: leaseapi.ProblemLost})
	metrics := p.do("GET", "/metrics", "").body
	for _, line := range []string{
		`leasectl_resizes_total{type="mem",how="grown"} 1`, `leasectl_resizes_total{type="mem",how="shrunk"} 2`,
		`leasectl_refusals_total{type="mem",reason="no-room"} 2`, `leasectl_refusals_total{type="q",reason="not-counted"} 2`, `leasectl_limit{type="mem"} 1024`, `leasectl_in_use{type="mem"} 256`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}

// Nobody resizes a lease of another token. The holder of a key is named by its owner.
func TestUnitsWithTokens(t *testing.T) {
	tokens, err := config.ParseTokens("t", []byte("red r-token-7890123456\nblue b-token-7890123456\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, Options{Pools: []pool.Config{memoryPool(t)}, Auth: &auth.Config{Tokens: tokens}})
	red, blue := withToken(p, "r-token-7890123456"), withToken(p, "b-token-7890123456")
	l := red.granted("type=mem&count=512&request_id=a&owner=me&key=k").Leases[0]
	body := fmt.Sprintf(`{"name":%q,"generation":%d,"from":512,"count":1}`, l.Name, l.Generation)
	if r := blue.do("POST", "/lease/resize", body); r.status != 403 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if q := decode[leaseapi.Problem](t, blue.acquire("type=mem&request_id=b&wait=0s&key=k"), 503).Queued; q.Reason.String() != "key held by me" {
		t.Errorf("reason %q", q.Reason)
	}
	decode[leaseapi.ResizeReply](t, red.do("POST", "/lease/resize", body), 200)
}

// The memory that commands used is shown beside the units that were asked for. Each lease
// counts once.
func TestPeaks(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{memoryPool(t), quota(1), {Type: "api", Units: 60, Unit: "requests/min", Unknown: 1}}})
	for i, bytes := range []int64{100, 300, 200} {
		l := p.granted(fmt.Sprintf("type=mem&count=%d&request_id=r%d", 10*(i+1), i)).Leases[0]
		body := fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"peak":{"bytes":%d,"source":"cgroup"}}`, l.Name, l.Generation, bytes)
		p.release(body)
		p.release(body)
	}
	for _, noMemory := range []string{"type=q&request_id=q", "type=api&request_id=a"} {
		l := p.granted(noMemory).Leases[0]
		p.release(fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"peak":{"bytes":7,"source":"process"}}`, l.Name, l.Generation))
	}
	pools := p.pools()
	want := leaseapi.Peaks{Leases: 3, Asked: leaseapi.Quantiles{P50: 20, P95: 30, Max: 30}, Used: leaseapi.Quantiles{P50: 200, P95: 300, Max: 300}}
	if got := pools[0].Peaks; got == nil || *got != want {
		t.Errorf("peaks %+v, want %+v", got, want)
	}
	b := &browser{peer: p}
	if text := b.page("/ui/pools/mem"); !strings.Contains(text, "from 3 leases with") || !strings.Contains(text, `data-label="Max"><div>30<`) {
		t.Errorf("the page does not show them:\n%s", text)
	}
	if text := b.page("/ui/pools/q"); strings.Contains(text, "Asked and used") {
		t.Errorf("the page shows peaks of names:\n%s", text)
	}
	if pools[1].Peaks != nil || pools[2].Peaks != nil {
		t.Errorf("peaks of names: %+v, of requests: %+v", pools[1].Peaks, pools[2].Peaks)
	}
	used := p.metrics()["leasectl_used_bytes"].samples
	if len(used) != 5 || used[`leasectl_used_bytes{type="mem",quantile="0.95"}`] != 300 || used[`leasectl_used_bytes_sum{type="mem"}`] != 600 || used[`leasectl_used_bytes_count{type="mem"}`] != 3 {
		t.Errorf("peaks among the metrics, which names have none of: %v", used)
	}
}

// A lease still shows its units when its pool is no longer counted, or no longer configured.
func TestUnitsOfAPoolThatIsCountedNoMore(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{{Type: "mem", Units: 10}, quota(1)}})
	p.granted("type=mem&count=7&request_id=r")
	for _, configs := range [][]pool.Config{{quota(1)}, {quota(1), {Type: "mem", Names: []string{"a", "b"}}}} {
		if err := p.server.SetPools(configs); err != nil {
			t.Fatal(err)
		}
		for _, of := range p.pools() {
			if of.Type == "mem" && (of.InUse != 7 || len(of.Leases) != 1 || of.Leases[0].Units != 7) {
				t.Errorf("%+v", of)
			}
		}
		r := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/r", ""), 200)
		if len(r.Leases) != 1 || r.Leases[0].Units != 7 {
			t.Errorf("%+v", r)
		}
	}
}
