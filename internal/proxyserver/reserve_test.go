package proxyserver

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/leaseapi"
)

// A request for a name gets this name, or waits for it, and everybody who looks is told why. A name that
// the pool does not have is refused with those that it has.
func TestAcquireName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(12), {Type: "c", Units: 3}}})
		if got := p.granted("type=q&name=q-3&owner=me&request_id=a"); got.Names[0] != "q-3" {
			t.Errorf("granted %+v", got)
		}
		waiting := p.later(t.Context(), "type=q&name=q-3&owner=you&request_id=b")
		synctest.Wait()
		if w := p.pools()[0].Waiters; len(w) != 1 || w[0].Name != "q-3" || w[0].Reason.String() != "wants q-3, held by me" {
			t.Errorf("waiters %+v", w)
		}
		if r := decode[leaseapi.RequestReply](t, p.do("GET", leaseapi.PathRequests+"b", ""), 200); r.Reason.String() != "wants q-3, held by me" {
			t.Errorf("request %+v", r)
		}
		if text := p.do("GET", "/ui/pools/q", "").body; !strings.Contains(text, "wants q-3, held by") {
			t.Errorf("the page does not say why:\n%s", text)
		}
		unknown := decode[leaseapi.Problem](t, p.acquire("type=q&name=q-12&request_id=c"), 404)
		if unknown.Type != leaseapi.ProblemUnknownName || !strings.HasSuffix(unknown.Detail, `pool "q" has no name "q-12": it has q-0, q-1, q-2, q-3, q-4, q-5, q-6, q-7, q-8, q-9 and 2 more`) {
			t.Errorf("%+v", unknown)
		}
		for query, status := range map[string]int{
			"type=q&name=q-1&request_id=x&count=2":         400,
			"type=q&name=q-1&request_id=x&key=k":           400,
			"type=q&name=q-1&request_id=x&items=2":         400,
			"type=q&name=q-1&request_id=x&overcommit=true": 400,
			"type=q&name=a/b&request_id=x":                 400,
			"type=q&name=&request_id=x":                    400,
			"type=c&name=c-1&request_id=x":                 400,
			"type=q&name=q-4&request_id=a":                 409,
			"type=q&name=q-1&request_id=y&count=1":         200,
		} {
			if r := p.acquire(query); r.status != status {
				t.Errorf("%s: %d %s", query, r.status, r.body)
			}
		}
		p.release(`{"request_ids":["a"]}`)
		if got := decode[leaseapi.AcquireReply](t, <-waiting, 200); got.Names[0] != "q-3" {
			t.Errorf("granted %+v", got)
		}
	})
}

// A name that is reserved goes to nobody, over a restart, until its owner gives it back by its name.
func TestReserve(t *testing.T) {
	dir := t.TempDir() // outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		onDisk := func() Options {
			st, err := bolt.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			return Options{Pools: []pool.Config{quota(1), {Type: "c", Units: 3}}, Store: st}
		}
		p := start(t, onDisk())
		p.granted("type=q&owner=job&request_id=a")
		for range 2 { // a copy of the call does the same
			r := decode[leaseapi.ReserveReply](t, p.do("POST", leaseapi.PathReserve, `{"name":"q-0","owner":"alice","for":"2h","reason":"repair"}`), 200)
			if v := r.Reservation; r.Type != "q" || v.Name != "q-0" || v.Owner != "alice" || v.HeldBy != "job" || v.Reason != "repair" || v.EndsIn != leaseapi.Duration(2*time.Hour) {
				t.Errorf("reserved %+v", r)
			}
		}
		for body, status := range map[string]int{
			`{"name":"q-0","owner":"bob","reason":"mine"}`:                409,
			`{"name":"q-0","owner":"alice"}`:                              400,
			`{"name":"q-0","reason":"nobody could give it back"}`:         400,
			`{"name":"q-0","owner":"alice","reason":"x","for":"-1s"}`:     400,
			`{"name":"","owner":"alice","reason":"x"}`:                    400,
			`{"name":"q-7","owner":"alice","reason":"x"}`:                 404,
			`{"name":"` + hostileName + `","owner":"alice","reason":"x"}`: 400,
		} {
			if r := p.do("POST", leaseapi.PathReserve, body); r.status != status {
				t.Errorf("%s: %d %s", body, r.status, r.body)
			}
		}
		p.release(`{"request_ids":["a"]}`)
		p.later(t.Context(), "type=q&request_id=b&owner=other")
		synctest.Wait()
		at := p.pools()[0]
		if at.InUse != 1 || at.Reserved != 1 || len(at.Reservations) != 1 || at.Reservations[0].HeldBy != "" || at.Waiters[0].Reason.String() != "wants 1, 1 of 1 reserved" {
			t.Errorf("pool %+v", at)
		}
		p.stop()

		p = start(t, onDisk())
		if at := p.pools()[0]; at.Reserved != 1 || at.Reservations[0].Owner != "alice" || at.Reservations[0].Reason != "repair" {
			t.Errorf("after a restart %+v", at)
		}
		for body, released := range map[string]bool{
			`{"names":["q-0"],"owner":"other"}`:                    false,
			`{"names":["q-0"],"owner":"alice","known_for":"100h"}`: false,
		} {
			if r := decode[leaseapi.ReleaseReply](t, p.release(body), 200); (len(r.Released) > 0) != released {
				t.Errorf("%s: %+v", body, r)
			}
		}
		if r := p.release(`{"names":["q-0"]}`); r.status != 204 { // version 1
			t.Errorf("%d %s", r.status, r.body)
		}
		if at := p.pools()[0]; at.Reserved != 1 {
			t.Errorf("somebody else gave it back: %+v", at)
		}
		if r := decode[leaseapi.ReleaseReply](t, p.release(`{"names":["q-0"],"owner":"alice","known_for":"0s"}`), 200); len(r.Released) != 1 || r.Stale != nil || r.Over != nil {
			t.Errorf("%+v", r)
		}
		p.granted("type=q&request_id=b&owner=other")
		p.stop()
	})
}

const hostileName = "a\\u0000b"

// Only an operator reserves, and gives back; any of them, who names the owner. The page does it in the
// name of its token.
func TestReserveTakesAnOperator(t *testing.T) {
	p, red, _, ops := startWithTokens(t, Options{Pools: []pool.Config{quota(2)}})
	const body = `{"name":"q-0","owner":"alice","reason":"repair"}`
	if r := red.do("POST", leaseapi.PathReserve, body); r.status != 403 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := ops.do("POST", leaseapi.PathReserve, body); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := red.release(`{"names":["q-0"],"owner":"alice"}`); r.status != 403 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := red.release(`{"names":["q-0"],"owner":"job"}`); r.status != 200 || !strings.Contains(r.body, "reserved-by-other") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := ops.release(`{"names":["q-0"],"owner":"alice"}`); r.status != 200 || ops.pools()[0].Reserved != 0 {
		t.Errorf("%d %s", r.status, r.body)
	}

	admin := signIn(p, "o-token-0123456789")
	post := func(status int, path string, form url.Values) {
		t.Helper()
		if r := admin.ask("POST", path, form.Encode()); r.status != status {
			t.Errorf("%s %v: %d\n%s", path, form, r.status, r.body)
		}
	}
	if text := admin.page("/ui/pools/q"); !strings.Contains(text, `href="/ui/reserve?type=q"`) || strings.Contains(text, "Reserved") {
		t.Errorf("the page:\n%s", text)
	}
	post(409, "/ui/reserve", url.Values{"type": {"q"}, "name": {"q-1"}, "for": {"soon"}, "reason": {"disk"}})
	post(409, "/ui/reserve", url.Values{"type": {"q"}, "name": {"q-9"}, "reason": {"disk"}})
	post(303, "/ui/reserve", url.Values{"type": {"q"}, "name": {"q-1"}, "for": {"90m"}, "reason": {"disk"}})
	at := ops.pools()[0]
	if len(at.Reservations) != 1 || at.Reservations[0].Owner != "ops" || at.Reservations[0].EndsIn > leaseapi.Duration(90*time.Minute) {
		t.Errorf("%+v", at)
	}
	if text := admin.page("/ui/pools/q"); !strings.Contains(text, "<bdi>disk</bdi>") || !strings.Contains(text, `href="/ui/give-back?name=q-1"`) || !strings.Contains(text, "1 reserved") {
		t.Errorf("the page:\n%s", text)
	}
	post(303, "/ui/give-back", url.Values{"name": {"q-1"}, "reason": {"repaired"}})
	post(409, "/ui/give-back", url.Values{"name": {"q-1"}, "reason": {"repaired"}})
	if at := ops.pools()[0]; at.Reserved != 0 || at.InUse != 0 {
		t.Errorf("%+v", at)
	}
	for _, event := range []string{"reserved</span> by <bdi>ops</bdi>", "given back</span> by <bdi>ops</bdi>"} {
		if text := admin.page("/ui/events"); !strings.Contains(text, event) {
			t.Errorf("no %s:\n%s", event, text)
		}
	}
}

// A call that ends a lease does not go on to the reservation that waited for that.
func TestReleaseDoesNotReachAReservation(t *testing.T) {
	for _, body := range []string{
		`{"leases":[{"name":"q-0","generation":G}],"names":["q-0"],"owner":"ops"}`,
		`{"request_ids":["a"],"names":["q-0"],"owner":"ops"}`,
	} {
		_, red, _, ops := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
		lease := red.granted("type=q&owner=ops&request_id=a").Leases[0]
		if r := ops.do("POST", leaseapi.PathReserve, `{"name":"q-0","owner":"ops","reason":"repair"}`); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
		r := red.release(strings.ReplaceAll(body, "G}", fmt.Sprint(lease.Generation, "}")))
		if at := ops.pools()[0]; r.status != 200 || !strings.Contains(r.body, leaseapi.ReasonReserved) || at.Reserved != 1 || len(at.Leases) > 0 {
			t.Errorf("%s: %d %s; the pool is %+v", body, r.status, r.body, at)
		}
		if r := ops.release(`{"names":["q-0"],"owner":"ops"}`); r.status != 200 || ops.pools()[0].Reserved != 0 {
			t.Errorf("by an operator: %d %s", r.status, r.body)
		}
	}
}
