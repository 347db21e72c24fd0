package proxyserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

func TestAnswerHasOurFieldsOnlyIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{{Type: "q", Names: []string{"a", "b", "c", "d", "e"}, DefaultTTL: time.Hour}}})
		if r := p.acquire("type=q"); r.body != `{"names":["a"]}` {
			t.Errorf("version 1 got %s", r.body)
		}
		now := time.Now()
		for _, c := range []struct {
			query   string
			id      string
			ttl     time.Duration
			expires time.Duration
		}{
			{"owner=me", "", time.Hour, time.Hour}, // its client cannot ask again, so it is firm
			{"ttl=5m", "", 5 * time.Minute, 5 * time.Minute},
			{"request_id=r1", "r1", time.Hour, leaseapi.ProvisionalTTL},
			{"request_id=r2&ttl=5m", "r2", 5 * time.Minute, leaseapi.ProvisionalTTL},
			{"request_id=r2&ttl=1s&wait=0", "r2", 5 * time.Minute, leaseapi.ProvisionalTTL}, // granted already
		} {
			got := p.granted("type=q&" + c.query)
			if got.RequestID != c.id || len(got.Leases) != 1 || got.Leases[0].Name != got.Names[0] || got.Leases[0].Generation == 0 ||
				time.Duration(got.TTL) != c.ttl || got.RenewEvery != min(got.TTL/3, leaseapi.Duration(leaseapi.MaxRenewEvery)) || !got.ExpiresAt.Equal(now.Add(c.expires)) {
				t.Errorf("%s: %+v", c.query, got)
			}
		}
	})
}

func TestHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.acquire("type=q")
		v1 := p.later(t.Context(), "type=q")
		synctest.Wait()
		ours := p.later(t.Context(), "type=q&request_id=r")
		time.Sleep(time.Second)
		p.release(`{"names":["q-0"]}`)
		if r := <-v1; r.body != `{"names":["q-0"]}` {
			t.Errorf("the first waiter got %s", r.body)
		}
		synctest.Wait()
		select {
		case r := <-ours:
			t.Errorf("the second waiter got %s", r.body)
		default:
		}
		p.release(`{"names":["q-0"]}`)
		if got := decode[leaseapi.AcquireReply](t, <-ours, 200); got.RequestID != "r" {
			t.Errorf("the second waiter got %+v", got)
		}
	})
}

// A request with an id is answered 202 after 2 s, and then after 25 s. It keeps its place and stays
// active over the gap.
func TestSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(2)}})
		p.acquire("type=q&owner=first")
		p.acquire("type=q&owner=second")
		time.Sleep(10 * time.Second)
		begin := time.Now()
		r := p.once("type=q&request_id=r&wait=1h")
		synctest.Wait()
		p.later(t.Context(), "type=q")
		got := decode[leaseapi.Queued](t, <-r, 202)
		if took := time.Since(begin); took != leaseapi.FirstSlice {
			t.Errorf("first answered after %v", took)
		}
		begin = time.Now()
		got = decode[leaseapi.Queued](t, p.acquire("type=q&request_id=r&wait=1h"), 202)
		if took := time.Since(begin); took != leaseapi.SliceTime {
			t.Errorf("answered after %v", took)
		}
		if got.RequestID != "r" || got.Place != 1 || got.Length != 2 || got.InUse != 2 || got.Capacity != 2 ||
			got.Oldest == nil || got.Oldest.Owner != "first" || time.Duration(got.Oldest.Age) != 37*time.Second {
			t.Errorf("queued %+v, oldest %+v", got, got.Oldest)
		}
		time.Sleep(leaseapi.SliceGap - time.Millisecond)
		p.release(`{"names":["q-0"]}`) // the waiter counts as active
		if got := p.granted("type=q&request_id=r&wait=1h"); got.Names[0] != "q-0" {
			t.Errorf("granted %+v", got)
		}
	})
}

func TestGrantIsProvisional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(2)}})
		a := p.granted("type=q&request_id=a&ttl=5m")
		p.granted("type=q&request_id=b")
		if l := p.pools()[0].Leases[0]; !l.Provisional || time.Duration(l.ExpiresIn) != 30*time.Second {
			t.Errorf("%+v", l)
		}
		r := p.do("POST", "/lease/renew", withLeases(a.Leases[0]))
		got := decode[leaseapi.RenewReply](t, r, 200)
		if time.Duration(got.TTL) != 5*time.Minute || time.Duration(got.RenewEvery) != 30*time.Second ||
			!got.ExpiresAt.Equal(time.Now().Add(5*time.Minute)) || !got.ReleaseAt.IsZero() {
			t.Errorf("renewed %+v", got)
		}
		time.Sleep(30 * time.Second)
		if n := p.inUse(); n != 1 {
			t.Errorf("%d leases are held, want only the one that was renewed", n)
		}
		time.Sleep(4*time.Minute + 30*time.Second)
		if n := p.inUse(); n != 0 {
			t.Errorf("%d leases are held after their TTL", n)
		}
	})
}

func TestRenewLost(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(2)}})
	a := p.granted("type=q&request_id=a&count=2").Leases
	p.release(`{"names":["q-0"]}`)
	r := p.do("POST", "/lease/renew", `{"leases":[{"name":"q-0","generation":`+num(a[0].Generation)+`},{"name":"q-1","generation":`+num(a[1].Generation)+`}],"ttl":"1h"}`)
	pr := decode[leaseapi.Problem](t, r, 410)
	if pr.Type != leaseapi.ProblemLost || len(pr.Lost) != 1 || pr.Lost[0].Lease != a[0] || pr.Lost[0].Reason != leaseapi.ReasonReleased {
		t.Errorf("problem %+v", pr)
	}
	if l := p.pools()[0].Leases[0]; l.Provisional {
		t.Error("the lease that is not lost was not renewed")
	}
}

// A late release happens at its time, even if all clients have gone, and not before.
func TestDelayedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(3)}})
		a := p.granted("type=q&request_id=a&ttl=1m").Leases[0]
		lease := `"leases":[{"name":"q-0","generation":` + num(a.Generation) + `}]`
		if r := p.release(`{` + lease + `,"delay":"20m"}`); r.body != `{"released":["q-0"]}` {
			t.Errorf("release answered %s", r.body)
		}
		end := time.Now().Add(20 * time.Minute)
		got := decode[leaseapi.RenewReply](t, p.do("POST", "/lease/renew", `{`+lease+`}`), 200)
		if !got.ReleaseAt.Equal(end) || !got.ExpiresAt.Equal(end) {
			t.Errorf("renewed %+v, want it to end at %v", got, end)
		}
		// Of several leases the earliest end counts.
		b := p.granted("type=q&request_id=b&count=2&ttl=1h").Leases
		p.release(`{"leases":[{"name":"q-2","generation":` + num(b[1].Generation) + `}],"delay":"10s"}`)
		if again := p.granted("type=q&request_id=b&count=2"); !again.ExpiresAt.Equal(time.Now().Add(10 * time.Second)) {
			t.Errorf("again %+v", again)
		}
		got = decode[leaseapi.RenewReply](t, p.do("POST", "/lease/renew", withLeases(b...)), 200)
		if first := time.Now().Add(10 * time.Second); !got.ExpiresAt.Equal(first) || !got.ReleaseAt.Equal(first) {
			t.Errorf("renewed both %+v", got)
		}
		p.release(`{"request_ids":["b"]}`)

		time.Sleep(20*time.Minute - time.Millisecond)
		if l := p.pools()[0].Leases; len(l) != 1 || !l[0].ReleaseAt.Equal(end) {
			t.Errorf("leases %+v", l)
		}
		time.Sleep(time.Millisecond)
		if n := p.inUse(); n != 0 {
			t.Error("the release did not happen")
		}
	})
}

// A broken connection does not cost the request its place, and holds nobody up.
func TestBrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.acquire("type=q")
		ctx, breakIt := context.WithCancel(t.Context())
		<-p.later(t.Context(), "type=q&request_id=r&wait=1ms") // withdrawn: it leaves nothing behind
		p.later(ctx, "type=q&request_id=r")
		synctest.Wait()
		other := p.later(t.Context(), "type=q")
		synctest.Wait()
		breakIt()
		synctest.Wait()
		st := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/r", ""), 200)
		if st.State != leaseapi.StateQueued || st.Place != 1 || st.Length != 2 {
			t.Errorf("request %+v, want it at place 1 of 2", st)
		}
		p.release(`{"names":["q-0"]}`)
		if r := <-other; r.status != 200 {
			t.Errorf("the one that is there got %d %s", r.status, r.body)
		}
		time.Sleep(leaseapi.PlaceKept)
		if r := p.do("GET", "/lease/requests/r", ""); r.status != 404 {
			t.Errorf("after a minute the request is %d %s", r.status, r.body)
		}
	})
}

// A version-1 client that disconnects leaves the queue, and a lease that it was granted at
// that moment comes back.
func TestVersion1ClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.acquire("type=q")
		ctx, leave := context.WithCancel(t.Context())
		p.later(ctx, "type=q")
		synctest.Wait()
		leave()
		synctest.Wait()
		if w := p.pools()[0].Waiting; w != 0 {
			t.Errorf("%d wait, want 0", w)
		}
		if n := len(p.server.term.waiting); n != 0 {
			t.Errorf("%d waiters are kept of clients that have gone", n)
		}
	})
}

// A slice that ends at the moment when the lease becomes free is answered with the grant, not
// "queued".
func TestSliceEndsWithAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.granted("type=q&ttl=25s")
		r := p.later(t.Context(), "type=q&request_id=r&wait=1h")
		synctest.Wait()
		p.server.term.mu.Lock()
		p.server.term.alarm.timer.Stop() // so that only the end of the slice finds the lease expired
		p.server.term.keeping = false    // and takes it for no stall
		p.server.term.mu.Unlock()
		if got := decode[leaseapi.AcquireReply](t, <-r, 200); got.RequestID != "r" {
			t.Errorf("got %+v", got)
		}
	})
}

// The context is read after the commit. A client without an id that has gone before gets
// nothing; a client with an id finds its grant again.
func TestClientGoneAfterTheCommit(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(2)}})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	serve := func(query string) int {
		w, r := record("POST", "/lease/acquire?"+query, "")
		p.server.ServeHTTP(w, r.WithContext(gone))
		return w.Code
	}
	if code := serve("type=q"); code != 503 {
		t.Errorf("a client that closed only its sending side would read status %d", code)
	}
	if n := p.inUse(); n != 0 {
		t.Errorf("%d leases are held by a client that has gone", n)
	}
	serve("type=q&request_id=r")
	if n := p.inUse(); n != 1 {
		t.Errorf("%d leases are held, want the one that its client comes back for", n)
	}
}

func TestWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}, MaxWait: time.Minute})
		p.acquire("type=q")
		for _, c := range []struct {
			query string
			took  time.Duration
		}{
			{"type=q", time.Minute},
			{"type=q&wait=10s", 10 * time.Second},
			{"type=q&wait=3h", time.Minute},
			{"type=q&wait=10s&request_id=a", 10 * time.Second},
		} {
			begin := time.Now()
			r := p.acquire(c.query)
			status, want := 503, `"queued":{"request_id":"","place":1,"length":1,"in_use":1,"capacity":1,"reason":{"kind":"full"},`
			if c.query == "type=q" { // version 1
				status, want = 500, `Failed to acquire lease "q": resources not found: resource not found within `+c.took.String()+"\n"
			}
			if took := time.Since(begin); r.status != status || took != c.took || !strings.Contains(r.body, want) {
				t.Errorf("%s: %d after %v: %q, want %q", c.query, r.status, took, r.body, want)
			}
		}
		if p.pools()[0].Waiting != 0 {
			t.Error("a waiter whose wait is over is still there")
		}
		// Over several slices the whole wait counts, whether the client names one or not.
		for _, wait := range []string{"", "&wait=60s"} {
			begin := time.Now()
			statuses := ""
			for {
				r := p.acquire("type=q&request_id=s" + wait)
				statuses += num(uint64(r.status)) + " "
				if r.status != 202 {
					break
				}
				if wait != "" { // the rest of the wait
					wait = "&wait=" + (time.Minute - time.Since(begin)).String()
				}
			}
			if took := time.Since(begin); statuses != "202 202 503 " || took != time.Minute {
				t.Errorf("wait %q: %safter %v", wait, statuses, took)
			}
		}
	})
}

// Of several connections with one id, the latest decides how long the request waits, and all
// of them hear the outcome.
func TestSeveralConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.acquire("type=q")
		first := p.once("type=q&request_id=r&wait=5s")
		synctest.Wait()
		second := p.later(t.Context(), "type=q&request_id=r&wait=20s")
		if r := <-first; r.status != 202 {
			t.Errorf("the earlier connection got %d %s", r.status, r.body)
		}
		if w := p.pools()[0].Waiting; w != 1 {
			t.Errorf("%d wait, want 1", w)
		}
		third := p.later(t.Context(), "type=q&request_id=r&wait=15s")
		synctest.Wait()
		p.release(`{"names":["q-0"]}`)
		a := decode[leaseapi.AcquireReply](t, <-second, 200)
		b := decode[leaseapi.AcquireReply](t, <-third, 200)
		if a.Leases[0] != b.Leases[0] || p.inUse() != 1 {
			t.Errorf("one got %+v, the other %+v", a, b)
		}

		longer := p.once("type=q&request_id=t&wait=20s")
		synctest.Wait()
		begin := time.Now()
		if r := p.acquire("type=q&request_id=t&wait=5s"); r.status != 503 || time.Since(begin) != 5*time.Second {
			t.Errorf("after %v: %d %s", time.Since(begin), r.status, r.body)
		}
		if r := <-longer; r.status != 202 {
			t.Errorf("the earlier connection got %d %s", r.status, r.body)
		}

		fourth := p.later(t.Context(), "type=q&request_id=s")
		fifth := p.later(t.Context(), "type=q&request_id=s")
		synctest.Wait()
		p.release(`{"request_ids":["s"]}`)
		for _, ch := range []<-chan reply{fourth, fifth} {
			if pr := decode[leaseapi.Problem](t, <-ch, 410); pr.Type != leaseapi.ProblemEnded {
				t.Errorf("cancelled: %+v", pr)
			}
		}
	})
}

// Ended and cancelled ids are remembered for two hours, even if they were never seen.
func TestTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.release(`{"request_ids":["a"]}`)
		time.Sleep(leaseapi.EndedKept - time.Millisecond)
		if r := p.acquire("type=q&request_id=a"); r.status != 410 {
			t.Errorf("a late copy got %d %s", r.status, r.body)
		}
		time.Sleep(time.Millisecond)
		if r := p.do("GET", "/lease/requests/a", ""); r.status != 404 {
			t.Errorf("after two hours it is %d %s", r.status, r.body)
		}
	})
}

func TestRequestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		a := p.granted("type=q&request_id=a~b")
		got := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/a%7Eb", ""), 200)
		if got.State != leaseapi.StateGranted || got.Names[0] != "q-0" || got.Leases[0] != a.Leases[0] {
			t.Errorf("request %+v", got)
		}
		time.Sleep(20 * time.Second)
		p.release(`{"request_ids":["a~b"]}`)
		p.granted("type=q&owner=me")
		for _, id := range []string{"c", "d"} {
			p.later(t.Context(), "type=q&request_id="+id)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		got = decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/d", ""), 200)
		if got.State != leaseapi.StateQueued || got.Place != 2 || got.Length != 2 || got.Estimate != 0 {
			t.Errorf("request %+v: a grant that nobody confirmed says nothing of the wait", got)
		}
		pools := p.pools()
		if pools[0].Type != "q" || pools[0].Capacity != 1 || pools[0].Waiting != 2 || time.Duration(pools[0].OldestWaiting) != 2*time.Second {
			t.Errorf("pool %+v", pools[0])
		}
		l := pools[0].Leases[0]
		if l.Owner != "me" || time.Duration(l.Age) != 2*time.Second || l.Provisional || time.Duration(l.ExpiresIn) != pool.DefaultTTL-2*time.Second {
			t.Errorf("lease %+v", l)
		}
	})
}

// A stop keeps leases, tells clients with an id to come back, and refuses clients without an
// id.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.acquire("type=q")
		withID := p.later(t.Context(), "type=q&request_id=r")
		synctest.Wait()
		v1 := p.later(t.Context(), "type=q")
		synctest.Wait()
		begin := time.Now()
		if err := p.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if got := decode[leaseapi.Queued](t, <-withID, 202); got.Place != 1 || got.Length != 2 || got.InUse != 1 {
			t.Errorf("queued %+v", got)
		}
		if r := <-v1; r.status != 503 || r.body != "Failed to acquire lease \"q\": the server is stopping\n" {
			t.Errorf("version 1 got %d %q", r.status, r.body)
		}
		// Calls on connections that are still open are refused.
		for _, call := range []struct{ target, body, want string }{
			{"/lease/acquire?type=q", "", "the server is stopping"},
			{"/lease/acquire?type=q&request_id=x", "", leaseapi.ProblemUnavailable},
			{"/lease/release", `{"names":["q-0"]}`, leaseapi.ProblemUnavailable},
		} {
			w, r := record("POST", call.target, call.body)
			p.server.ServeHTTP(w, r)
			if w.Code != 503 || !strings.Contains(w.Body.String(), call.want) {
				t.Errorf("%s: %d %s", call.target, w.Code, w.Body)
			}
		}
	})
}

// The size of a name is the size of its encoding by encoding/json.
func TestSizeInJSON(t *testing.T) {
	for _, r := range []string{"", "-", "~", `"`, `\`, "<", ">", "&", "\x00", "\n", "\x1f", "\x7f", "\xff", "é", "\u2028", "\u2029", "\ufffd", "\U0001f600"} {
		text, err := json.Marshal("a" + r + "b")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sizeInJSON("a"+r+"b"), len(text)-2; got != want {
			t.Errorf("%q: %d, want %d", r, got, want)
		}
	}
}

// A request whose answer would be too long for our clients is refused at once; a client of
// version 1 gets what it asked for.
func TestAnswersThatAreTooLong(t *testing.T) {
	for _, begin := range []string{"", strings.Repeat("n", 95), strings.Repeat("n", leaseapi.MaxName-5), strings.Repeat(`<>&"\`, 10)} { // JSON escapes the last one
		names := make([]string, 20_000)
		for i := range names {
			names[i] = fmt.Sprintf("%s%05d", begin, i)
		}
		p := start(t, Options{Pools: []pool.Config{{Type: "q", Names: names}, {Type: "u", Units: 20_000}}})
		most := 0
		for _, query := range []string{"request_id=%d", "owner=%d", "request_id=a%d"} {
			asked := func(count int) string { return fmt.Sprintf("type=q&count=%d&"+query, count, count) }
			r := p.acquire(asked(len(names)))
			if _, err := fmt.Sscanf(r.body, "Failed to acquire lease \"q\": the pool can never give that many in one answer: 20000 asked for, and with names as long as these %d have room", &most); err != nil || r.status != 400 {
				t.Errorf("%d %s", r.status, r.body)
			}
			if r := p.acquire(asked(most + 1)); r.status != 400 {
				t.Errorf("%d %.100s", r.status, r.body)
			}
			r = p.acquire(asked(most))
			if r.status != 200 || len(r.body) > leaseapi.MaxBody || len(r.body) < leaseapi.MaxBody/2 {
				t.Fatalf("%d, %d bytes %.100s", r.status, len(r.body), r.body)
			}
			var all leaseapi.ReleaseRequest
			all.Names = decode[leaseapi.AcquireReply](t, r, 200).Names
			body, _ := json.Marshal(all)
			p.release(string(body))
		}
		if r := p.acquire("type=q&count=20000"); r.status != 200 {
			t.Errorf("version 1: %d %.100s", r.status, r.body)
		}
		if r := p.acquire("type=u&count=20000&request_id=units"); r.status != 200 {
			t.Errorf("units: %d %.100s", r.status, r.body)
		}
		for _, what := range []string{"type=q&count=20001&request_id=many", "type=none&count=20000&request_id=none"} {
			if r := p.acquire(what); strings.Contains(r.body, "in one answer") {
				t.Errorf("%s: %s", what, r.body)
			}
		}
	}
}

// A request keeps its grant, or its place in the queue, when longer names are configured.
func TestLongerNamesRefuseNobodyWhoIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make([]string, 3000)
		for i := range names {
			names[i] = fmt.Sprint("n", i)
		}
		p := start(t, Options{Pools: []pool.Config{{Type: "q", Names: names}}})
		asked := func(id string) string { return "type=q&count=3000&wait=1h&request_id=" + id }
		granted := p.granted(asked("holds"))
		if r := p.acquire(asked("waits")); r.status != 202 {
			t.Fatalf("%d %.100s", r.status, r.body)
		}
		if err := p.server.SetPools([]pool.Config{{Type: "q", Names: append(names, strings.Repeat("n", leaseapi.MaxName))}}); err != nil {
			t.Fatal(err)
		}
		if r := p.acquire(asked("new")); r.status != 400 {
			t.Errorf("a new request: %d %.100s", r.status, r.body)
		}
		if again := p.granted(asked("holds")); again.Leases[0] != granted.Leases[0] {
			t.Errorf("asked again, it has %v, not %v", again.Leases[0], granted.Leases[0])
		}
		waits := p.later(t.Context(), asked("waits"))
		synctest.Wait()
		p.release(`{"request_ids":["holds"]}`)
		if r := <-waits; r.status != 200 {
			t.Errorf("one that waits: %d %.100s", r.status, r.body)
		}
	})
}

// An answer has the id of its call, whatever the server answers.
func TestCallID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		for _, c := range []struct {
			target, id, want string
			status           int
		}{
			{"/lease/requests/r", "2", "2", 405},
			{"/nowhere", "3", "3", 404},
			{"/lease/acquire?type=q&request_id=r&count=1", "4", "4", 200},
			{"/lease/acquire?type=q&request_id=r&count=1", "", "", 200},
			{"/lease/acquire?type=q&request_id=r&count=1", "no id", "", 200},
		} {
			req, err := http.NewRequest("POST", "http://pipe"+wiretest.Target(c.target), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(leaseapi.HeaderCall, c.id)
			resp, err := p.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Header.Get(leaseapi.HeaderCall); resp.StatusCode != c.status || got != c.want {
				t.Errorf("%s, id %q: %s, id %q", c.target, c.id, resp.Status, got)
			}
		}
	})
}
