package proxyserver

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// Of those that wait, the one of the highest priority is granted first; an answer says how many are
// ahead by theirs.
func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.granted("type=q")
		granted := make(map[string]<-chan reply)
		for i, priority := range []int{0, -5, 7, 2} {
			id := fmt.Sprint("r", i)
			granted[id] = p.later(t.Context(), fmt.Sprintf("type=q&request_id=%s&priority=%d", id, priority))
			synctest.Wait()
		}
		state := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/r0", ""), 200)
		if state.Place != 3 || state.Order != (leaseapi.Order{Higher: 2}) {
			t.Errorf("%+v", state)
		}
		pl := p.pools()[0]
		var order []string
		for _, w := range pl.Waiters {
			order = append(order, fmt.Sprintf("%s %d %d", w.RequestID, w.Priority, w.Higher))
		}
		if got, want := strings.Join(order, ", "), "r2 7 0, r3 2 1, r0 0 2, r1 -5 3"; got != want {
			t.Errorf("order %s, want %s", got, want)
		}
		for _, id := range []string{"r2", "r3", "r0", "r1"} {
			p.release(`{"names":["q-0"]}`)
			synctest.Wait()
			decode[leaseapi.AcquireReply](t, <-granted[id], 200)
		}
		if l := p.pools()[0].Leases[0]; l.Priority != -5 {
			t.Errorf("%+v", l)
		}
	})
}

// A step of priority is worth what the server was told; with nothing, priority alone counts.
func TestPriorityAging(t *testing.T) {
	for aging, first := range map[time.Duration]string{0: "late", 30 * time.Second: "early", -1: "late"} {
		synctest.Test(t, func(t *testing.T) {
			p := start(t, Options{Pools: []pool.Config{quota(1)}, PriorityAging: aging})
			p.granted("type=q&ttl=2h")
			p.later(t.Context(), "type=q&request_id=early&wait=1h")
			time.Sleep(time.Minute)
			p.acquire("type=q&request_id=early&wait=1h")
			p.later(t.Context(), "type=q&request_id=late&priority=1&wait=1h")
			synctest.Wait()
			if w := p.pools()[0].Waiters[0]; w.RequestID != first {
				t.Errorf("with an aging of %v %s is first", aging, w.RequestID)
			}
		})
	}
}

// A token may not ask for a higher priority than it is allowed.
func TestPriorityOfTokens(t *testing.T) {
	_, red, _, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	red.granted("type=q&request_id=a&priority=-1")
	pr := decode[leaseapi.Problem](t, red.acquire("type=q&request_id=b&priority=1&wait=0"), 403)
	if pr.Type != leaseapi.ProblemForbidden || pr.Detail != "priority 1 is more than this token may ask for: it may ask for 0 at the most" {
		t.Errorf("%+v", pr)
	}
	if n := red.pools()[0].Waiting; n != 0 {
		t.Errorf("%d wait", n)
	}
}

// What went ahead of a waiter is said in every answer, counted, and kept over a restart, as is the
// priority that an operator gave it.
func TestOvertakenWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		options := func() Options {
			o := durable(t, dir, 1)
			o.Pools = []pool.Config{{Type: "m", Units: 10}}
			return o
		}
		p := start(t, options())
		p.granted("type=m&count=6&request_id=holder&ttl=2h")
		p.do("POST", "/lease/renew", withLeases(p.pools()[0].Leases[0].Lease))
		p.later(t.Context(), "type=m&count=8&request_id=large")
		synctest.Wait()
		p.granted("type=m&count=3&request_id=small")
		want := leaseapi.Order{Overtaken: 3, MayOvertake: 10}
		check := func(p *peer) {
			t.Helper()
			state := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/large", ""), 200)
			pl := p.pools()[0]
			if state.Order != want || pl.Waiters[0].Order != want || pl.MayOvertake != 10 {
				t.Errorf("%+v, %+v, want %+v", state.Order, pl, want)
			}
		}
		check(p)
		decode[leaseapi.MoveReply](t, p.do("POST", "/lease/move", `{"request_id":"large","priority":4,"reason":"why"}`), 200)
		want.Priority = 4
		check(p)
		all := p.metrics()
		for name, want := range map[string]float64{"leasectl_overtakes_total": 1, "leasectl_moves_total": 1, "leasectl_overtaken_units": 3, "leasectl_may_overtake_units": 10} {
			if got := all[name].samples[name+`{type="m"}`]; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		p = start(t, options())
		check(p)
	})
}

func TestMoveWire(t *testing.T) {
	const target = "/lease/move"
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	p.granted("type=q&request_id=held&owner=me")
	p.later(t.Context(), "type=q&request_id=r&owner=you")
	p.waitingFor(1)
	bad := leaseapi.ProblemBadRequest
	runWire(t, p, []wireCase{
		{name: "by GET", method: "GET", target: target, status: 405, contentType: typeProblem, problem: leaseapi.ProblemMethod, allow: "POST", body: "/lease/move takes POST, not GET"},
		{name: "no request", method: "POST", target: target, send: `{"priority":1,"reason":"x"}`, status: 400, contentType: typeProblem, problem: bad, body: "request_id is empty"},
		{name: "no reason", method: "POST", target: target, send: `{"request_id":"r","priority":1}`, status: 400, contentType: typeProblem, problem: bad, body: "reason is empty: those concerned will want to know"},
		{name: "too high", method: "POST", target: target, send: `{"request_id":"r","priority":101,"reason":"x"}`, status: 400, contentType: typeProblem, problem: bad, body: "priority 101: want -100 to 100"},
		{name: "unknown", method: "POST", target: target, send: `{"request_id":"zzz","priority":1,"reason":"x"}`, status: 404, contentType: typeProblem, problem: leaseapi.ProblemUnknownRequest, body: "no request zzz is known"},
		{name: "granted", method: "POST", target: target, send: `{"request_id":"held","priority":1,"reason":"x"}`, status: 409, contentType: typeProblem, problem: leaseapi.ProblemNotQueued, body: pool.ErrNotQueued.Error()},
		{name: "moved", method: "POST", target: target, send: `{"request_id":"r","priority":-7,"reason":"x"}`, status: 200, contentType: typeJSON,
			body: `{"request_id":"r","type":"q","owner":"you","priority":-7,"before":0,"place":1,"length":1}`},
		{name: "again", method: "POST", target: target, send: `{"request_id":"r","priority":-7,"reason":"x"}`, status: 200, contentType: typeJSON,
			body: `{"request_id":"r","type":"q","owner":"you","priority":-7,"before":-7,"place":1,"length":1}`},
		{name: "acquire, no number", method: "POST", target: "/lease/acquire?type=q&request_id=s&priority=x", status: 400, contentType: typeProblem, problem: bad, body: `the body is not valid: json: cannot unmarshal string into Go struct field AcquireRequest.Ask.priority of type int`},
		{name: "acquire, too low", method: "POST", target: "/lease/acquire?type=q&request_id=s&priority=-101", status: 400, contentType: typeProblem, problem: bad, body: "priority -101: want -100 to 100"},
		{name: "acquire, another priority", method: "POST", target: "/lease/acquire?type=q&request_id=r&owner=you&priority=-7", status: 409, contentType: typeProblem, problem: leaseapi.ProblemConflict, body: pool.ErrConflict.Error()},
	})
	_, red, _, ops := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	if r := red.do("POST", target, `{"request_id":"r","priority":1,"reason":"x"}`); r.status != 403 {
		t.Errorf("a job moves: %d %s", r.status, r.body)
	}
	if r := ops.do("POST", target, `{"request_id":"r","priority":1,"reason":"x"}`); r.status != 404 {
		t.Errorf("an operator: %d %s", r.status, r.body)
	}
}
