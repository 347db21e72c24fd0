package proxyserver

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

var (
	kills    = flag.Int("kills", 40, "rounds of TestCampaign")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the moments at which TestCampaign kills; 0: random")
)

// Environment of a child process that serves for the campaign.
const (
	childSocket = "PROXYSERVER_TEST_SOCKET"
	childStore  = "PROXYSERVER_TEST_STORE" // data directory; empty: in memory
	childFsize  = "PROXYSERVER_TEST_FSIZE" // most bytes of any file, as if the disk were full then
	childSync   = "PROXYSERVER_TEST_SYNC"  // syncs fail after a signal
)

// breakSyncOnSignal is there where the system can do it.
var breakSyncOnSignal func()

func campaignPools() []pool.Config {
	return []pool.Config{
		{Type: "q", Names: []string{"a", "b", "c", "d", "e"}},
		{Type: "clock", Names: []string{"clock"}},
	}
}

// serveCampaign is the child: it serves until it is killed.
func serveCampaign() {
	err := func() error {
		if limit, err := strconv.ParseUint(os.Getenv(childFsize), 10, 64); err == nil {
			signal.Ignore(syscall.SIGXFSZ) // then a write fails with EFBIG
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
				return err
			}
		}
		if os.Getenv(childSync) != "" {
			breakSyncOnSignal()
		}
		s, err := New(Options{Pools: campaignPools(), Data: os.Getenv(childStore)})
		if err != nil {
			return err
		}
		socket := os.Getenv(childSocket)
		os.Remove(socket)
		l, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		return s.Serve(context.Background(), l)
	}()
	fmt.Fprintln(os.Stderr, "server:", err)
	os.Exit(1)
}

// child is a server in a process of its own, which can be killed.
type child struct {
	cmd   *exec.Cmd
	begun time.Time
}

func startChild(t *testing.T, socket, data string, env ...string) *child {
	t.Helper()
	return startChildWith(t, socket, data, nil, env...)
}

func startChildWith(t *testing.T, socket, data string, stdout *os.File, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe), begun: time.Now()}
	c.cmd.Env = append(os.Environ(), childSocket+"="+socket, childStore+"="+data)
	c.cmd.Env = append(c.cmd.Env, env...)
	if stdout != nil {
		c.cmd.Stdout = stdout
	}
	c.cmd.Stderr = os.Stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// kill returns how long the process lived at most.
func (c *child) kill() time.Duration {
	c.cmd.Process.Kill()
	c.cmd.Wait() // says that it was killed
	return time.Since(c.begun)
}

// overSocket returns a client for whatever server listens on socket.
func overSocket(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

// insist sends a request until it is answered by something else than a 5xx, as
// clients do that lost their server.
func insist(ctx context.Context, c *http.Client, method, target, body string) (reply, error) {
	for {
		r, err := once(ctx, c, method, target, body)
		if err == nil && r.status < 500 || ctx.Err() != nil {
			return r, err
		}
		time.Sleep(time.Millisecond) // nothing says when the server is back
	}
}

func once(ctx context.Context, c *http.Client, method, target, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+target, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}

// ledger is what the clients know: who has which lease.
type ledger struct {
	t           *testing.T
	mu          sync.Mutex
	held        map[string]entry  // by name: from the answer to an acquire until its release is sent
	generations map[uint64]string // all that were ever seen, with their request
}

type entry struct {
	leaseapi.Lease
	owner, id string
}

func (l *ledger) take(owner, id string, leases []leaseapi.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range leases {
		if other, ok := l.held[lease.Name]; ok {
			l.t.Errorf("%s was granted %+v, which %s holds as %+v", id, lease, other.id, other.Lease)
		}
		if other, ok := l.generations[lease.Generation]; ok {
			l.t.Errorf("generation %d was given to %s and to %s", lease.Generation, other, id)
		}
		l.held[lease.Name] = entry{lease, owner, id}
		l.generations[lease.Generation] = id
	}
}

func (l *ledger) give(leases []leaseapi.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range leases {
		delete(l.held, lease.Name)
	}
}

func (l *ledger) snapshot() map[string]entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.held)
}

// job acquires and releases until stop, whatever becomes of the server.
func (l *ledger) job(ctx context.Context, c *http.Client, n int, r *rand.Rand, stop *atomic.Bool) {
	owner := fmt.Sprintf("job-%d", n)
	for i := 0; !stop.Load() && !l.t.Failed() && ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d", owner, i)
		count := 1 + r.IntN(2)
		target := fmt.Sprintf("/lease/acquire?type=q&count=%d&owner=%s&request_id=%s", count, owner, id)
		if r.IntN(8) == 0 { // a copy whose answer nobody reads
			short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Microsecond)
			once(short, c, "POST", target, "")
			cancel()
		}
		got, err := insist(ctx, c, "POST", target, "")
		var grant leaseapi.AcquireReply
		if err != nil || got.status != 200 || json.Unmarshal([]byte(got.body), &grant) != nil || len(grant.Leases) != count {
			l.t.Errorf("%s: %d %s, %v", id, got.status, got.body, err)
			return
		}
		l.take(owner, id, grant.Leases)
		body, _ := json.Marshal(leaseapi.RenewRequest{Leases: grant.Leases})
		if got, err := insist(ctx, c, "POST", "/lease/renew", string(body)); err != nil || got.status != 200 {
			l.t.Errorf("%s: renew: %d %s, %v", id, got.status, got.body, err)
		}
		time.Sleep(time.Duration(r.IntN(5000)) * time.Microsecond) // it works
		if r.IntN(4) == 0 {
			again, err := insist(ctx, c, "POST", target, "")
			var same leaseapi.AcquireReply
			if json.Unmarshal([]byte(again.body), &same); err != nil || !slices.Equal(same.Leases, grant.Leases) {
				l.t.Errorf("%s had %+v, and has %d %s, %v", id, grant.Leases, again.status, again.body, err)
			}
		}
		l.give(grant.Leases)
		if r.IntN(4) == 0 {
			body = []byte(`{"request_ids":["` + id + `"]}`)
		} else {
			body, _ = json.Marshal(leaseapi.ReleaseRequest{Leases: grant.Leases})
		}
		if got, err := insist(ctx, c, "POST", "/lease/release", string(body)); err != nil || got.status != 200 {
			l.t.Errorf("%s: release: %d %s, %v", id, got.status, got.body, err)
		}
		if got, err := insist(ctx, c, "POST", target, ""); err != nil || got.status != 410 {
			l.t.Errorf("%s has ended, and got %d %s, %v", id, got.status, got.body, err)
		}
	}
}

// compare looks whether the server has what the clients have: a lease that a
// client holds before and after the look must be there, and be its owner's.
func (l *ledger) compare(ctx context.Context, c *http.Client) (clock time.Duration) {
	before := l.snapshot()
	got, err := insist(ctx, c, "GET", "/pools", "")
	var pools leaseapi.PoolsReply
	if err != nil || json.Unmarshal([]byte(got.body), &pools) != nil || len(pools.Pools) != 2 {
		l.t.Errorf("pools: %d %s, %v", got.status, got.body, err)
		return 0
	}
	server := make(map[string]leaseapi.PoolLease)
	for _, p := range pools.Pools {
		if p.InUse > p.Capacity {
			l.t.Errorf("%d of %d are in use", p.InUse, p.Capacity)
		}
		for _, lease := range p.Leases {
			server[lease.Name] = lease
		}
	}
	for name, e := range l.snapshot() {
		if before[name] == e && (server[name].Lease != e.Lease || server[name].Owner != e.owner) {
			l.t.Errorf("%s holds %+v, and the server says %+v", e.owner, e.Lease, server[name])
		}
	}
	return time.Duration(server["clock"].ExpiresIn)
}

// Over any number of KILLs at any moment, with clients that come back: no lease
// is lost or granted twice, no generation is used again, every lease has the
// owner that it had, and the lease clock runs only while a server does.
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

	server := startChild(t, socket, dir)
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
	for n := range 8 {
		jobs.Go(func() {
			c := overSocket(socket)
			defer c.CloseIdleConnections()
			l.job(t.Context(), c, n, rand.New(rand.NewPCG(seed, uint64(n)+1)), &stop)
		})
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var up time.Duration
	begun := server.begun
	for round := range *kills {
		if round%4 == 3 { // kill it while it starts
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		} else {
			left := l.compare(t.Context(), client)
			if ran := up + time.Since(server.begun); delay-left > ran || left > delay {
				t.Errorf("round %d: %v of the delay are left after servers ran for %v", round, left, ran)
			}
			time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		}
		up += server.kill()
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) // down
		server = startChild(t, socket, dir)
		if t.Failed() {
			break
		}
	}
	stop.Store(true)
	jobs.Wait()
	left := l.compare(t.Context(), client)
	var pools leaseapi.PoolsReply
	last, err := insist(t.Context(), client, "GET", "/pools", "")
	if err != nil || json.Unmarshal([]byte(last.body), &pools) != nil || pools.Pools[0].InUse != 0 || pools.Pools[0].Waiting != 0 {
		t.Errorf("when all clients are done: %s, %v", last.body, err)
	}
	if len(l.generations) < *kills {
		t.Errorf("%d grants in %d rounds: the campaign tested nothing", len(l.generations), *kills)
	}
	t.Logf("%d KILLs, %d leases granted, servers ran for %v of %v, and the lease clock for %v",
		*kills, len(l.generations), up+time.Since(server.begun), time.Since(begun), delay-left)
}

// Without a data directory leases are lost with the server, but no generation
// ever comes again: what a client of the killed server still holds means nothing
// to the next one, and ends nobody's lease.
func TestCampaignInMemory(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	client := overSocket(socket)
	defer client.CloseIdleConnections()
	seen := make(map[uint64]int)
	var old []leaseapi.Lease
	for round := range max(3, *kills/5) {
		server := startChild(t, socket, "")
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

// When the disk is full the server stops to grant and says so, and nothing that
// it had acknowledged is gone.
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
	for _, c := range []struct{ method, target string }{{"GET", "/readyz"}, {"POST", "/lease/acquire?type=q"}, {"GET", "/pools"}} {
		if r, err := once(t.Context(), client, c.method, c.target, ""); err != nil || r.status != 503 {
			t.Errorf("%s: %d %s, %v", c.target, r.status, r.body, err)
		}
	}
	server.kill()

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
