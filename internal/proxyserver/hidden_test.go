package proxyserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// startWithHidden starts a server with pools a, build and cloud. In the last two an operator holds, reserves and waits.
func startWithHidden(t *testing.T) (s *identities, held leaseapi.Lease) {
	t.Helper()
	s = startWithIssuers(t, Options{Pools: []pool.Config{
		{Type: "a", Names: pool.Numbered("a", 4)}, {Type: "build", Names: pool.Numbered("build", 4)}, {Type: "cloud", Units: 3},
	}})
	ops := s.with(opsSecret)
	held = ops.granted("type=build&request_id=held&owner=you").Leases[0] // build-0
	units := ops.granted("type=cloud&request_id=units&owner=you&count=3").Leases[0]
	if r := ops.do("POST", leaseapi.PathRenew, withLeases(held, units)); r.status != 200 {
		t.Fatalf("renew: %d %s", r.status, r.body)
	}
	if r := ops.do("POST", leaseapi.PathReserve, `{"name":"build-1","owner":"alice","reason":"repair"}`); r.status != 200 {
		t.Fatalf("reserve: %d %s", r.status, r.body)
	}
	ops.later(t.Context(), "type=cloud&request_id=waits&owner=you&count=1")
	eventually(t, func() bool { return ops.pools()[2].Waiting == 1 })
	return s, held
}

// stateOf is what of pools a call could change.
func stateOf(pools []leaseapi.Pool) string {
	var all strings.Builder
	for _, p := range pools {
		fmt.Fprintf(&all, "%s %d %s %d %d", p.Type, p.InUse, p.Paused, p.Reserved, p.Waiting)
		for _, l := range p.Leases {
			fmt.Fprint(&all, ", ", l.Lease, l.Owner, l.Broken, l.ReleaseAt)
		}
		for _, w := range p.Waiters {
			fmt.Fprint(&all, ", ", w.RequestID, w.Priority)
		}
	}
	return all.String()
}

// A caller of pool a gets the same answer about the names and requests of other pools as about those
// that never were.
func TestHiddenIsAsUnknown(t *testing.T) {
	s, held := startWithHidden(t)
	generation := fmt.Sprint(held.Generation)
	before := stateOf(s.with(opsSecret).pools()[1:])
	n := 0 // of the caller
	for who, p := range map[string]*peer{
		"a job":         s.job(s.first, map[string]any{"ref": "refs/heads/x"}),
		"a reader":      s.with(boardSecret),
		"an operator a": s.with(opsASecret),
	} {
		n++
		for i, c := range []struct{ method, target, body, hidden string }{
			{"POST", leaseapi.PathReserve, `{"name":"NAME","owner":"me","reason":"x"}`, "build-0 build-1 build-2 cloud-0 cloud-7"},
			{"POST", leaseapi.PathBreak, `{"name":"NAME","reason":"x","now":true}`, "build-0 build-1 build-2 cloud-0 cloud-7"},
			{"POST", leaseapi.PathBreak, `{"name":"NAME","generation":` + generation + `,"reason":"x"}`, "build-0 build-1 cloud-0 cloud-7"},
			{"POST", leaseapi.PathRemove, `{"request_id":"NAME","reason":"x"}`, "held units waits"},
			{"POST", leaseapi.PathMove, `{"request_id":"NAME","priority":1,"reason":"x"}`, "held units waits"},
			{"POST", leaseapi.PathRenew, `{"leases":[{"name":"NAME","generation":` + generation + `}]}`, "build-0 build-1 cloud-0 cloud-7"},
			{"POST", leaseapi.PathRenew, `{"leases":[{"name":"NAME","generation":1}]}`, "build-0 build-1 cloud-0"},
			{"POST", leaseapi.PathResize, `{"name":"NAME","generation":` + generation + `,"from":1,"count":2}`, "build-0 build-1 cloud-0"},
			{"POST", leaseapi.PathReport, `{"request_id":"NAME","outcome":"throttled"}`, "held units waits"},
			{"POST", leaseapi.PathRelease, `{"names":["NAME"]}`, "build-0 build-1 build-2 cloud-0 cloud-7"},
			{"POST", leaseapi.PathRelease, `{"names":["NAME"],"owner":"alice","known_for":"0s"}`, "build-0 build-1 build-2 cloud-0 cloud-7"},
			{"POST", leaseapi.PathRelease, `{"names":["NAME"],"owner":"you"}`, "build-0 build-1 cloud-0"},
			{"POST", leaseapi.PathRelease, `{"names":["nobodys","NAME"],"owner":"you"}`, "build-0 build-1 cloud-0"},
			{"POST", leaseapi.PathRelease, `{"leases":[{"name":"NAME","generation":` + generation + `}]}`, "build-0 build-1 cloud-0 cloud-7"},
			{"POST", leaseapi.PathRelease, `{"leases":[{"name":"NAME","generation":` + generation + `}],"delay":"1h"}`, "build-0 build-1 cloud-0 cloud-7"},
			{"POST", leaseapi.PathRelease, `{"leases":[{"name":"NAME","generation":1}],"exit_code":0}`, "build-0 build-1 cloud-0"},
			{"GET", leaseapi.PathRequests + "NAME", "", "held units waits"},
			{"POST", leaseapi.PathAcquire + "?type=a&name=nobodys&request_id=NAME", "", "held units waits"},
			{"POST", leaseapi.PathRelease, `{"request_ids":["NAME"]}`, "held units waits"},
			{"POST", leaseapi.PathAcquire + "?type=a&owner=me&wait=0s&request_id=ID&replaces=NAME:" + generation, "", "build-0 build-1 cloud-0 cloud-7"},
			{"POST", leaseapi.PathAcquire + "?type=NAME&request_id=ID", "", "build cloud"},
			{"POST", leaseapi.PathAcquire + "?type=a&also=NAME&request_id=ID", "", "build cloud"},
			{"POST", leaseapi.PathAcquire + "?type=a&name=NAME&request_id=ID", "", "build-0 build-1 build-2 cloud-0"},
			{"GET", leaseapi.PathPools + "?type=NAME", "", "build cloud"},
			{"POST", leaseapi.PathPause, `{"type":"NAME","reason":"x"}`, "build cloud"},
			{"POST", leaseapi.PathResume, `{"type":"NAME"}`, "build cloud"},
		} {
			for k, hidden := range strings.Fields(c.hidden) {
				ask := func(name string) string {
					in := strings.NewReplacer("NAME", name, "ID", fmt.Sprintf("r-%d-%d-%d-%t", n, i, k, name == hidden))
					r := p.do(c.method, in.Replace(c.target), in.Replace(c.body))
					if strings.HasPrefix(c.target, leaseapi.PathAcquire) && r.status == 200 { // what is granted differs
						_, r.body, _ = strings.Cut(r.body, `"stale"`)
						p.release(in.Replace(`{"request_ids":["ID"]}`))
					}
					return fmt.Sprintf("%d %s", r.status, strings.ReplaceAll(r.body, name, "NAME"))
				}
				if got, want := ask(hidden), ask(fmt.Sprintf("unknown-%d-%dx", i, k)); got != want {
					t.Errorf("%s: %s %s %s: %s is told from an unknown one:\n%s\n%s", who, c.method, c.target, c.body, hidden, got, want)
				}
			}
		}
	}
	if got := stateOf(s.with(opsSecret).pools()[1:]); got != before {
		t.Errorf("something has changed:\n%s\n%s", got, before)
	}
}

// A request for several pools, of which an operator may use one, is shown there, and the operator leaves it
// alone. The other pool is not named.
func TestHiddenPoolOfSeveral(t *testing.T) {
	s, _ := startWithHidden(t)
	s.with(opsSecret).later(t.Context(), "type=a&also=build%3D4&request_id=both&owner=you")
	p := s.with(opsASecret)
	eventually(t, func() bool { return p.pools()[0].Waiting == 1 })
	if w := p.pools()[0].Waiters[0]; w.RequestID != "both" || !strings.Contains(w.Reason.String(), "another pool") {
		t.Errorf("shown as %+v", w)
	}
	for target, body := range map[string]string{
		leaseapi.PathRemove: `{"request_id":"both","reason":"x"}`, leaseapi.PathMove: `{"request_id":"both","priority":5,"reason":"x"}`,
	} {
		if pr := decode[leaseapi.Problem](t, p.do("POST", target, body), 403); strings.Contains(pr.Detail, "build") {
			t.Errorf("%s: %+v", target, pr)
		}
	}
	if r := p.release(`{"request_ids":["both"]}`); r.status != 200 { // its own, which never was
		t.Errorf("%d %s", r.status, r.body)
	}
	if all := p.pools()[0]; all.Waiting != 1 || all.Waiters[0].Priority != 0 {
		t.Errorf("something has changed: %+v", all)
	}
}

// What of its settings a server does without is told to callers of all pools only: it may name any pool.
func TestWarningsAreNotForSomePools(t *testing.T) {
	s, _ := startWithHidden(t)
	s.server.Reloaded("pools", errors.New("pool build: a name is there twice"))
	for who, p := range map[string]*peer{"a job": s.job(s.first, map[string]any{"ref": "refs/heads/x"}), "a reader": s.with(boardSecret), "nobody": s.peer} {
		if r := p.do("GET", leaseapi.PathReady, ""); !strings.Contains(r.body, "degraded") || strings.Contains(r.body, "build") {
			t.Errorf("%s: %d %s", who, r.status, r.body)
		}
	}
	if r := s.with(opsSecret).do("GET", leaseapi.PathReady, ""); !strings.Contains(r.body, "pool build") {
		t.Errorf("an operator: %d %s", r.status, r.body)
	}
}

// An operator of a pool gives back what it reserved there, also when the pool has left the configuration,
// and after a restart.
func TestGiveBackToAGonePool(t *testing.T) {
	build, rest := pool.Config{Type: "build", Names: []string{"x", "y", "z"}}, pool.Config{Type: "a", Names: []string{"a-0"}}
	dir := t.TempDir()
	opts := durable(t, dir, 1)
	opts.Pools = []pool.Config{rest, build}
	s := startWithIssuers(t, opts)
	s.may.Tokens[1].Pools = []string{"build"} // of ops-a
	s.server.SetAuth(&s.may)
	for _, name := range []string{"x", "y", "z"} {
		if r := s.with(opsASecret).do("POST", leaseapi.PathReserve, `{"name":"`+name+`","owner":"alice","reason":"repair"}`); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if err := s.server.SetPools([]pool.Config{rest}); err != nil {
		t.Fatal(err)
	}
	back := func(p *peer, name string) string { return p.release(`{"names":["` + name + `"],"owner":"alice"}`).body }
	if got := back(s.with(opsASecret), "x"); got != `{"released":["x"]}` {
		t.Errorf("its pool is gone: %s", got)
	}
	s.stop()
	opts = durable(t, dir, 1)
	opts.Pools = []pool.Config{rest}
	s = startWithIssuers(t, opts)
	if got := back(s.with(opsASecret), "y"); !strings.Contains(got, leaseapi.TextNoName) {
		t.Errorf("an operator of another pool: %s", got)
	}
	s.may.Tokens[1].Pools = []string{"build"}
	s.server.SetAuth(&s.may)
	if got := back(s.with(opsASecret), "y"); got != `{"released":["y"]}` {
		t.Errorf("after a restart: %s", got)
	}
	if got := back(s.with(opsSecret), "z"); got != `{"released":["z"]}` {
		t.Errorf("an operator of all pools: %s", got)
	}
}
