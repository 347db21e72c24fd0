package proxyserver

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// merging is the query of a request that merges with others of one key.
func merging(id, mode, variant string) string {
	return fmt.Sprintf("type=q&key=k&request_id=%s&coalesce=%s&variant=%s", id, mode, variant)
}

// finish releases the lease of a run whose command ended by itself with code.
func (p *peer) finish(l leaseapi.Lease, code int) reply {
	return p.release(fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"exit_code":%d}`, l.Name, l.Generation, code))
}

// A thousand requests come while one of their key runs. One more run is made, and each request
// ends once, with the exit code of that run or with its lease. No request is left.
func TestThousandArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const arrivals = 1000
		p := start(t, Options{Pools: []pool.Config{quota(3)}})
		first := p.granted(merging("first", "join", "v"))
		p.do("POST", "/lease/renew", withLeases(first.Leases[0]))
		var done sync.WaitGroup
		var mu sync.Mutex
		var runs []leaseapi.Lease
		codes := make(map[int]int)
		for i := range arrivals {
			done.Go(func() {
				for { // after a slice the request is sent again
					r := p.acquire(merging(fmt.Sprint("r", i), "join", "v") + "&wait=1h")
					if r.status == 202 {
						continue
					}
					mu.Lock()
					defer mu.Unlock()
					if r.status == 200 {
						runs = append(runs, decode[leaseapi.AcquireReply](t, r, 200).Leases[0])
						p.finish(runs[len(runs)-1], 7)
						return
					}
					pr := decode[leaseapi.Problem](t, r, 410)
					if pr.Type != leaseapi.ProblemCoalesced || pr.ExitCode == nil {
						t.Errorf("%s", r.body)
						return
					}
					codes[*pr.ExitCode]++
					return
				}
			})
		}
		time.Sleep(time.Minute) // two slices each
		if pl := p.pools()[0]; pl.Waiting != 1 || pl.Following != arrivals-1 || pl.InUse != 1 {
			t.Errorf("%d wait, %d follow, %d in use", pl.Waiting, pl.Following, pl.InUse)
		}
		p.finish(first.Leases[0], 3)
		done.Wait()
		if len(runs) != 1 || codes[7] != arrivals-1 || len(codes) != 1 {
			t.Errorf("%d runs, codes %v", len(runs), codes)
		}
		// A client that lost the answer asks again, and hears the same.
		again := decode[leaseapi.Problem](t, p.acquire(merging("r999", "join", "v")), 410)
		heard := again.Type == leaseapi.ProblemCoalesced && again.ExitCode != nil && *again.ExitCode == 7
		if !heard && again.Type != leaseapi.ProblemEnded { // the request that ran has ended
			t.Errorf("asked again: %+v", again)
		}
		if pl := p.pools()[0]; pl.Waiting+pl.Following+pl.InUse != 0 {
			t.Errorf("%+v is left", pl)
		}
		metrics := p.do("GET", "/metrics", "").body
		if !strings.Contains(metrics, fmt.Sprintf(`leasectl_waits_ended_total{type="q",how="coalesced"} %d`, arrivals-1)) {
			t.Error("they are not counted")
		}
		p.stop()
	})
}

// A run that does not end by itself passes nothing on, and neither does a release without an
// exit code. A newer request supersedes the last waiting one. The wait of a request that
// joined a run under way does not time out.
func TestCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(3)}})
		ctx := t.Context()
		first := p.granted(merging("first", "once", "v"))
		joined := p.once(merging("joined", "once", "v") + "&wait=2s")
		time.Sleep(3 * time.Second)
		q := decode[leaseapi.Queued](t, <-joined, 202)
		if q.Reason.Kind != leaseapi.WaitJoined || q.Follows != "first" || q.Place != 0 {
			t.Errorf("a follower hears %+v", q)
		}
		state := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/joined", ""), 200)
		if state.State != leaseapi.StateJoined || state.Follows != "first" {
			t.Errorf("its state is %+v", state)
		}
		if w := p.pools()[0].Waiters; len(w) != 1 || w[0].Follows != "first" {
			t.Errorf("waiters %+v", w)
		}
		joined = p.later(ctx, merging("joined", "once", "v")+"&wait=1h")
		synctest.Wait()
		p.release(withLeases(first.Leases[0]))
		second := decode[leaseapi.AcquireReply](t, <-joined, 200)

		old := p.later(ctx, merging("old", "latest", "v1")+"&wait=1h")
		synctest.Wait()
		young := p.later(ctx, merging("young", "latest", "v2")+"&wait=1h")
		if pr := decode[leaseapi.Problem](t, <-old, 410); pr.Type != leaseapi.ProblemSuperseded {
			t.Errorf("%+v", pr)
		}
		p.finish(second.Leases[0], 0)
		decode[leaseapi.AcquireReply](t, <-young, 200)
		for _, query := range []string{
			"type=q&request_id=a&coalesce=join&variant=v", "type=q&key=k&coalesce=join&variant=v", "type=q&key=k&request_id=a&coalesce=join",
			"type=q&key=k&request_id=a&coalesce=always&variant=v", "type=q&key=k&request_id=a&variant=v",
		} {
			if r := p.acquire(query); r.status != 400 {
				t.Errorf("%s: status %d", query, r.status)
			}
		}
		if w := p.pools()[0].Waiters; len(w) > 0 {
			t.Errorf("there wait %+v", w)
		}
		p.stop()
	})
}

// A run that lost one of its leases passes no exit code on, also if the server restarts before
// the run ends.
func TestLostRunOutlivesRestart(t *testing.T) {
	dir := t.TempDir()
	p := start(t, durable(t, dir, 3))
	run := p.granted(merging("run", "once", "v") + "&count=2")
	if r := p.acquire(merging("next", "once", "v") + "&wait=1ms"); r.status != 202 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := p.do("POST", "/lease/break", fmt.Sprintf(`{"name":%q,"reason":"drill","now":true}`, run.Leases[0].Name)); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p = start(t, durable(t, dir, 3))
	p.finish(run.Leases[1], 0)
	p.granted(merging("next", "once", "v"))
}
