package proxyserver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A caller whose jobs wait on most connections leaves the others theirs: beyond its share its waits are
// answered at once, and keep their places. Clients of version 1, which cannot come back, are told that
// nothing is free. Another caller waits, and its calls are answered.
func TestWaitsOfOneCallerLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8 // six for acquires
		_, red, blue, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}, maxConnections: most})
		red.granted("type=q&request_id=held")
		var waits []<-chan reply
		for i := range 6 {
			query := "type=q"
			if i%2 == 0 {
				query += "&wait=1h&request_id=r-" + num(uint64(i))
			}
			waits = append(waits, red.later(t.Context(), query))
			synctest.Wait()
		}
		begin := time.Now()
		r := red.acquire("type=q&request_id=over&wait=1h")
		if place := decode[leaseapi.Queued](t, r, 202).Place; place != 7 || time.Since(begin) > 0 || r.header.Get("Retry-After") != "1" {
			t.Errorf("beyond its share: place %d after %v, %v", place, time.Since(begin), r.header)
		}
		if r := red.acquire("type=q"); r.status != 503 || !strings.Contains(r.body, leaseapi.TextExhausted) || time.Since(begin) > 0 {
			t.Errorf("a client of version 1: %d %s", r.status, r.body)
		}
		other := blue.later(t.Context(), "type=q&request_id=b&wait=1h")
		synctest.Wait()
		select {
		case r := <-other:
			t.Errorf("another caller: %d %s", r.status, r.body)
		default:
		}
		if r := blue.do("GET", leaseapi.PathWhoami, ""); r.status != 200 {
			t.Errorf("a call of another caller: %d", r.status)
		}
		if r := red.acquire("type=q&request_id=over&wait=1h"); decode[leaseapi.Queued](t, r, 202).Place != 7 {
			t.Errorf("it lost its place: %s", r.body)
		}
		red.release(`{"request_ids":["held"]}`)
		if r := <-waits[0]; r.status != 200 {
			t.Errorf("the first: %d %s", r.status, r.body)
		}
	})
}

// A caller whose calls take long, as where clients leave and come again, leaves the others connections.
// Its calls that wait do not count, so its renewals go on.
func TestCallsOfOneCallerLeaveRoom(t *testing.T) {
	const most = 16 // two for callers that have more than others
	var c calls
	begun := 0
	for ; begun < 100 && c.begin("red", most); begun++ {
	}
	if begun != 14 {
		t.Errorf("alone it has %d calls under way", begun)
	}
	if !c.begin("blue", most) {
		t.Error("another caller has none")
	}
	if c.begin("blue", most) {
		t.Error("the other has more than its share")
	}
	for range begun {
		c.wait("red")
	}
	if !c.begin("red", most) {
		t.Error("its calls wait, and it has no other")
	}
	for range begun {
		c.wake("red")
		c.end("red")
	}
	c.end("red")
	c.end("blue")
	if c.all != 0 || len(c.of) != 0 {
		t.Errorf("%d calls count that have ended, of %v", c.all, c.of)
	}
}

// Who has too many calls under way is refused before a body is read, on the wire and on the page, and the
// refusal counts nowhere.
func TestTooManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		p, red, _, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}, maxConnections: most})
		calls := &p.server.handler.calls
		for range 7 {
			calls.begin(pool.CallerID("red", ""), most)
		}
		if r := red.do("POST", leaseapi.PathRenew, `{}`); r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, errCalls.Error()) {
			t.Errorf("a call: %d %s", r.status, r.body)
		}
		if calls.all != 7 {
			t.Errorf("%d calls count, and 7 are under way", calls.all)
		}
		for range 7 {
			calls.end(pool.CallerID("red", ""))
		}
		red.granted("type=q")
		if calls.all != 0 || len(calls.of) != 0 {
			t.Errorf("%d calls count that are answered", calls.all)
		}
	})
}
