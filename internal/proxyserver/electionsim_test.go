package proxyserver

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/unsteady"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	electionSchedules = flag.Int("election-schedules", 200, "schedules of TestElectionsSimulated; a tenth of them with -short")
	electionSeed      = flag.Uint64("election-seed", 0, "runs only this schedule of TestElectionsSimulated")
)

// electionTTL is the TTL of leads in the simulation.
const electionTTL = 4 * time.Second

// TestElectionsSimulated runs three servers, in one process and in simulated time, on a database
// that delays, loses and repeats what it is asked. One server or all of them are cut off or stopped
// for longer than the TTL, at random moments. Meanwhile clients acquire, renew and release, and
// others ask each server who holds what. The answers are those of one server that never failed.
//
//	go test ./internal/proxyserver -run TestElectionsSimulated -election-schedules 5000
func TestElectionsSimulated(t *testing.T) {
	t.Parallel()
	schedules := unsteady.Schedules{
		Count: *electionSchedules, Seed: *electionSeed,
		Again: "go test ./internal/proxyserver -run TestElectionsSimulated -election-seed",
	}
	schedules.Run(t, func(t *testing.T, s *unsteady.Schedule) {
		h := new(history)
		synctest.Test(t, func(t *testing.T) { electionSchedule(t, h, s) })
		unsteady.CheckHistory(t, lockModel(false), h.ops)
	})
}

// electionSchedule runs one schedule.
func electionSchedule(t *testing.T, h *history, schedule *unsteady.Schedule) {
	h.begun = time.Now()
	random := rand.New(rand.NewPCG(schedule.Seed, 1))
	db := unsteady.New()
	var peers []*peer
	var servers []*unsteady.Server
	weather := func() func(string) unsteady.Fate {
		return unsteady.Weather(rand.New(rand.NewPCG(random.Uint64(), 2)), electionTTL/16)
	}
	for i := range 3 {
		s := db.Server(weather())
		e := replicated.New(replicated.Options{
			Database: s, Words: replicated.Words{Database: "memory", Store: "here"}, Advertise: fmt.Sprint("http://", i),
			TTL: electionTTL, Poll: electionTTL / 10, SinceBoot: s.SinceBoot, Log: slog.New(slog.DiscardHandler),
			Bounds: replicated.Bounds{Writes: 8, Bytes: 1 << 12, Record: 1 << 11},
		})
		servers = append(servers, s)
		peers = append(peers, start(t, Options{Pools: []pool.Config{quota(2)}, Election: e}))
	}
	working, rest := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for n := range uint64(2) {
		r := rand.New(rand.NewPCG(random.Uint64(), n))
		clients.Go(func() {
			for i := 0; working.Err() == nil; i++ {
				h.cycleOn(t, peers, int(n), fmt.Sprintf("c%d-%d", n, i), r)
				time.Sleep(time.Duration(r.Int64N(int64(electionTTL / 4))))
			}
		})
	}
	for i, p := range peers {
		r := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		clients.Go(func() {
			for working.Err() == nil {
				h.readOf(p)
				time.Sleep(time.Duration(r.Int64N(int64(electionTTL / 4))))
			}
		})
	}
	cutOff := func(string) unsteady.Fate { return unsteady.Fate{Lost: true} }
	deaf := func(string) unsteady.Fate { return unsteady.Fate{Silent: true} }
	for range 4 {
		time.Sleep(time.Duration(random.Int64N(int64(electionTTL))))
		chosen := servers
		if i := random.IntN(4); i < 3 {
			chosen = servers[i : i+1]
		}
		long := time.Duration(random.Int64N(int64(2 * electionTTL)))
		how := random.IntN(3)
		for _, s := range chosen {
			switch how {
			case 0:
				s.Disturb(cutOff)
			case 1:
				s.Disturb(deaf)
			default:
				s.Stop()
			}
		}
		schedule.Faultf("%v: %s for %v: %d of them", time.Since(h.begun), [...]string{"cut off", "deaf", "stopped"}[how], long, len(chosen))
		time.Sleep(long)
		for _, s := range chosen {
			s.Disturb(weather())
			s.Continue()
		}
	}
	for _, s := range servers {
		s.Disturb(nil)
	}
	rest()
	clients.Wait() // each ends its cycle, so that somebody serves again
	for _, p := range peers {
		if err := p.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}

// cycleOn acquires, renews and releases at whichever server leads.
func (h *history) cycleOn(t *testing.T, peers []*peer, client int, id string, r *rand.Rand) {
	at := r.IntN(len(peers))
	// insist repeats a call until a server has done it: the same call twice is one.
	insist := func(method, target, body string) reply {
		for begun := time.Now(); ; at = (at + 1) % len(peers) {
			ctx, cancel := context.WithTimeout(context.Background(), electionTTL/2)
			answer, err := peers[at].try(ctx, method, target, body)
			cancel()
			if err == nil && answer.status == 200 {
				return answer
			}
			if err == nil && answer.status != 503 && answer.status != 202 {
				t.Errorf("%s %s: %d %s", target, body, answer.status, answer.body)
				return answer
			}
			if time.Since(begun) > 100*electionTTL {
				t.Errorf("%s %s: nobody answers: %+v, %v", target, body, answer, err)
				return answer
			}
			time.Sleep(electionTTL / 64)
		}
	}
	got := h.call(client, lockCall{kind: "acquire", count: 1}, func() lockAnswer {
		var grant leaseapi.AcquireReply
		answer := insist("POST", "/lease/acquire?type=q&ttl=1h&wait=1s&owner=o&request_id="+id, "")
		if err := json.Unmarshal([]byte(answer.body), &grant); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		return lockAnswer{ok: answer.status == 200, leases: grant.Leases}
	})
	for _, l := range got.leases {
		if r.IntN(2) == 0 {
			body, _ := json.Marshal(leaseapi.RenewRequest{Leases: []leaseapi.Lease{l}})
			h.call(client, lockCall{kind: "renew", lease: l}, func() lockAnswer {
				return lockAnswer{ok: insist("POST", "/lease/renew", string(body)).status == 200}
			})
		}
		body, _ := json.Marshal(leaseapi.ReleaseRequest{Leases: []leaseapi.Lease{l}})
		h.call(client, lockCall{kind: "release", lease: l}, func() lockAnswer {
			return lockAnswer{ok: insist("POST", "/lease/release", string(body)).status == 200}
		})
	}
}

// readOf asks one server who holds what. Only an answer counts.
func (h *history) readOf(p *peer) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*electionTTL)
	defer cancel()
	called := time.Since(h.begun).Nanoseconds()
	answer, err := p.try(ctx, "GET", "/pools", "")
	var all leaseapi.PoolsReply
	if err != nil || answer.status != 200 || json.Unmarshal([]byte(answer.body), &all) != nil || len(all.Pools) != 1 {
		return
	}
	var out lockAnswer
	for _, l := range all.Pools[0].Leases {
		out.leases = append(out.leases, l.Lease)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{Input: lockCall{kind: "read"}, Call: called, Output: out, Return: time.Since(h.begun).Nanoseconds()})
}
