package proxyserver

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	kills    = flag.Int("kills", 40, "rounds of TestCampaign")
	killJobs = flag.Int("kill-jobs", 16, "how many jobs at once TestCampaign has")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the moments at which TestCampaign kills; 0: random")
)

// Over any number of KILLs at any moment, with clients that come back, and with a wall clock
// that jumps to and fro by hours: no lease is lost or granted twice, no generation is used
// again, every lease keeps its owner, and the lease clock runs only while a server does. When
// the KILLs are over, and all clients are done or dead, nothing stays held, and nobody waits.
func TestCampaign(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill-seed=%d", seed)
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l := &ledger{t: t, held: make(map[string]entry), generations: make(map[uint64]string)}
	client := overSocket(socket)
	defer client.CloseIdleConnections()

	start := func() *child { return startChild(t, socket, dir, childWall+"=1") }
	server := start()
	defer func() { server.kill() }()
	const delay = 10 * time.Hour
	for _, body := range []string{"", `{"names":["clock"],"delay":"10h"}`} {
		target := "/lease/release"
		if body == "" {
			target = "/lease/acquire?type=clock&owner=clock"
		}
		if r, err := insist(t.Context(), client, "POST", target, body); err != nil || r.status/100 != 2 {
			t.Fatalf("%d %s, %v", r.status, r.body, err)
		}
	}

	var jobs sync.WaitGroup
	var stop atomic.Bool
	for n := range *killJobs {
		jobs.Go(func() {
			c := overSocket(socket)
			defer c.CloseIdleConnections()
			l.job(t.Context(), c, n, rand.New(rand.NewPCG(seed, uint64(n)+1)), &stop)
		})
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var up time.Duration
	var starts time.Duration // how long a start takes here
	begun := server.begun
	for round := range *kills {
		if round%4 == 3 { // kill it while it starts
			time.Sleep(time.Duration(r.Int64N(int64(starts))))
		} else {
			left := l.compare(t.Context(), client)
			starts = time.Since(server.begun)
			if ran := up + starts; delay-left > ran || left > delay {
				t.Errorf("round %d: %v of the delay are left after servers ran for %v", round, left, ran)
			}
			l.await(2 + r.IntN(20))
		}
		up += server.kill()
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) // down
		server = start()
		if t.Failed() {
			break
		}
	}
	stop.Store(true)
	jobs.Wait()
	l.leave(t.Context(), client, "nobody", "nobody")
	if r, err := insist(t.Context(), client, "POST", "/lease/release", `{"request_ids":["none"]}`); err != nil || r.status != 200 {
		t.Errorf("%d %s, %v", r.status, r.body, err) // its commit includes the waiter
	}
	up += server.kill()
	server = start() // from here on the store has each waiter as one that must come back
	left := l.compare(t.Context(), client)
	waiting := campaignWaiting(t, client)
	up += server.kill()
	passTime(t, dir, pool.PlaceKept)
	server = start()
	healed(t, client)
	if l.died == 0 || waiting == 0 || len(l.generations) < *kills {
		t.Errorf("%d grants in %d rounds, %d holders died, %d waiters were left: the campaign tested nothing", len(l.generations), *kills, l.died, waiting)
	}
	t.Logf("%d KILLs, %d jobs at once, %d leases granted, servers ran for %v of %v, and the lease clock for %v",
		*kills, *killJobs, len(l.generations), up+time.Since(server.begun), time.Since(begun), delay-left)
}

// askPools returns the pools of a server in another process.
func askPools(t *testing.T, client *http.Client) []leaseapi.Pool {
	t.Helper()
	got, err := insist(t.Context(), client, "GET", "/pools", "")
	if err != nil {
		t.Fatal(err)
	}
	return decode[leaseapi.PoolsReply](t, got, 200).Pools
}

// campaignWaiting returns how many requests wait.
func campaignWaiting(t *testing.T, client *http.Client) (n int) {
	t.Helper()
	for _, p := range askPools(t, client) {
		n += p.Waiting
	}
	return n
}

// passTime puts the lease clock of the store in dir forward, as a server that ran for d
// without clients would.
func passTime(t *testing.T, dir string, d time.Duration) {
	t.Helper()
	st, err := bolt.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	snap, err := st.Load()
	if err == nil {
		err = st.Commit(store.Batch{Clock: snap.Clock + d, Generation: snap.Generation})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// healed waits, after the last KILL, until nothing is held and nobody waits: leases of dead
// clients end with their TTL, which began anew once.
func healed(t *testing.T, client *http.Client) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		busy := slices.DeleteFunc(askPools(t, client), func(p leaseapi.Pool) bool {
			return (p.Type == "clock" || p.InUse == 0) && p.Waiting == 0
		})
		if len(busy) == 0 {
			return
		}
		if time.Since(begun) > 2*deadTTL+30*time.Second {
			t.Errorf("%v after all clients are done: %+v", time.Since(begun), busy)
			return
		}
	}
}

// Without a data directory leases are lost with the server, but no generation repeats, even
// if the wall clock was set to and fro. So a lease that a client got from the killed server
// means nothing to the next server, and its release ends nobody's lease.
func TestCampaignInMemory(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	client := overSocket(socket)
	defer client.CloseIdleConnections()
	seen := make(map[uint64]int)
	var old []leaseapi.Lease
	for round := range max(3, *kills/5) {
		server := startChild(t, socket, "", childWall+"=1")
		for range 5 {
			r, err := insist(t.Context(), client, "POST", "/lease/acquire?type=q&ttl=1h", "")
			var grant leaseapi.AcquireReply
			if err != nil || json.Unmarshal([]byte(r.body), &grant) != nil || len(grant.Leases) != 1 {
				t.Fatalf("%d %s, %v", r.status, r.body, err)
			}
			if other, ok := seen[grant.Leases[0].Generation]; ok {
				t.Errorf("generation %d was given in rounds %d and %d", grant.Leases[0].Generation, other, round)
			}
			seen[grant.Leases[0].Generation] = round
			if round == 0 {
				old = append(old, grant.Leases...)
			}
		}
		if round > 0 {
			body, _ := json.Marshal(leaseapi.ReleaseRequest{Leases: old})
			if r, err := insist(t.Context(), client, "POST", "/lease/release", string(body)); err != nil || strings.Count(r.body, "held-by-other") != 5 {
				t.Errorf("release of what an earlier server granted: %d %s, %v", r.status, r.body, err)
			}
		}
		server.kill()
	}
}

// When the disk is full the server says so and ends, and loses nothing that it had
// acknowledged.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	client := overSocket(socket)
	defer client.CloseIdleConnections()
	server := startChild(t, socket, dir, childFsize+"="+strconv.Itoa(160<<10))
	grant, err := insist(t.Context(), client, "POST", "/lease/acquire?type=clock&owner=kept&request_id=kept", "")
	if err != nil || grant.status != 200 {
		t.Fatalf("%d %s, %v", grant.status, grant.body, err)
	}
	// Ended ids are remembered: each takes room that does not come back.
	var cancelled []string
	var failed reply
	for n := range 20_000 {
		id := fmt.Sprintf("%0128d", n)
		r, err := once(t.Context(), client, "POST", "/lease/release", `{"request_ids":["`+id+`"]}`)
		if err != nil {
			t.Fatal(err)
		}
		if r.status != 200 {
			failed = r
			break
		}
		cancelled = append(cancelled, id)
	}
	if failed.status != 503 {
		t.Fatalf("after %d ids: %d %s", len(cancelled), failed.status, failed.body)
	}
	if err := server.cmd.Wait(); err == nil || server.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the server ended with %v", err)
	}

	server = startChild(t, socket, dir) // there is room again
	defer server.kill()
	again, err := insist(t.Context(), client, "POST", "/lease/acquire?type=clock&owner=kept&request_id=kept", "")
	if err != nil || again.status != 200 || !strings.Contains(grant.body, again.body[:strings.Index(again.body, `"ttl"`)]) {
		t.Errorf("had %s, and has %d %s, %v", grant.body, again.status, again.body, err)
	}
	for _, id := range []string{cancelled[0], cancelled[len(cancelled)/2], cancelled[len(cancelled)-1]} {
		if r, err := insist(t.Context(), client, "POST", "/lease/acquire?type=q&request_id="+id, ""); err != nil || r.status != 410 {
			t.Errorf("%s was cancelled, and got %d %s, %v", id, r.status, r.body, err)
		}
	}
	t.Logf("the disk was full after %d ids", len(cancelled))
}
