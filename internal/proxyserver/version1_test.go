package proxyserver

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// The lease of a version-1 client lasts for the pool's v1_ttl. The log and the metrics say once
// that it is about to end, and again when it ends.
func TestVersion1TTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		c := quota(2)
		c.DefaultTTL, c.V1TTL = time.Hour, 10*time.Hour
		p := start(t, Options{Pools: []pool.Config{c}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		p.acquire("type=q")
		ours := p.granted("type=q&request_id=r")
		p.do("POST", leaseapi.PathRenew, withLeases(ours.Leases[0]))
		look := func(lines, ending, expired int) {
			t.Helper()
			synctest.Wait()
			f := p.metrics()
			if n := strings.Count(log.String(), "level=WARN msg=ending owner=\"\" type=q names=[q-0]"); n != lines {
				t.Errorf("at %v: %d lines, want %d\n%s", time.Now(), n, lines, &log)
			}
			got := [2]float64{f["leasectl_v1_ending_total"].samples[`leasectl_v1_ending_total{type="q"}`], f["leasectl_v1_expiries_total"].samples[`leasectl_v1_expiries_total{type="q"}`]}
			if got != [2]float64{float64(ending), float64(expired)} {
				t.Errorf("at %v: counted %v, want %v, %v", time.Now(), got, ending, expired)
			}
		}
		time.Sleep(9*time.Hour - time.Second)
		look(0, 0, 0)
		time.Sleep(version1Every)
		look(1, 1, 0)
		time.Sleep(30 * time.Minute)
		look(1, 1, 0)
		time.Sleep(time.Hour)
		look(1, 1, 1)
		if !strings.Contains(log.String(), "level=WARN msg=expired owner=\"\" type=q names=[q-0]") {
			t.Errorf("the end is not warned of:\n%s", &log)
		}
	})
}

// A call that releases by names ends the leases that were held when it came. It does not end
// leases that it makes room for, be a name twice in the call or free before.
func TestReleaseOfNamesSparesTheNext(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(2)}})
	next := func(count, release string) {
		t.Helper()
		waiter := p.later(t.Context(), "type=q&request_id=r"+count+"&count="+count)
		p.waitingFor(1)
		p.release(release)
		g := decode[leaseapi.AcquireReply](t, <-waiter, 200)
		if r := p.do("POST", leaseapi.PathRenew, withLeases(g.Leases...)); r.status != 200 {
			t.Errorf("after %s the next holder is told: %d %s", release, r.status, r.body)
		}
	}
	p.acquire("type=q")
	p.acquire("type=q")
	next("1", `{"names":["q-0","q-0"]}`)
	p.release(`{"names":["q-0"]}`)
	next("2", `{"names":["q-1","q-0"]}`)
}

// A client that takes the server for Boskos is told what the server is, and which paths to use,
// with a token or without.
func TestBoskosPaths(t *testing.T) {
	p, _, _, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	for _, call := range []string{"POST /acquire?type=q&state=free&dest=busy&owner=o", "POST /acquirebystate", "POST /release?name=q-0", "POST /reset", "POST /update", "GET /metric?type=q"} {
		method, target, _ := strings.Cut(call, " ")
		r := p.do(method, target, "")
		if r.status != 404 || !strings.Contains(r.body, "not Boskos") || !strings.Contains(r.body, "/lease/acquire?type=TYPE") {
			t.Errorf("%s: %d %s", call, r.status, r.body)
		}
	}
}
