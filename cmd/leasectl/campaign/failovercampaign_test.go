package campaign

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

var (
	failoverRounds = flag.Int("failover-rounds", 4, "rounds of TestFailoverCampaign with each database: 60, for a whole campaign")
	failoverSeed   = flag.Uint64("failover-seed", 0, "seed of TestFailoverCampaign; 0 takes one")
)

// TestFailoverCampaign sends KILL and STOP to the leading server and to the database, for longer
// than the leader's TTL, and cuts the network between them. Etcd also fills up, is compacted and
// asks for passwords; PostgreSQL is locked and ends connections, and answers come late or not at
// all. One or two of these faults happen at a time. Meanwhile some clients acquire, renew and
// release, and others ask every server who holds what.
//
//	go test -run TestFailoverCampaign -failover-rounds 60 -timeout 1h ./cmd/leasectl/campaign
//
// It checks:
//   - the answers are those of one server that never failed and did the calls one after the other;
//   - no name is held by two at a time;
//   - when everything is healed, every client is served and nothing is held.
func TestFailoverCampaign(t *testing.T) {
	t.Parallel()
	seed := *failoverSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	program := clitest.Build(t, "")
	n := len(heldNames{}.names)
	for i, members := range []int{1, 3} {
		t.Run(fmt.Sprintf("etcd of %d", members), func(t *testing.T) {
			t.Parallel()
			cluster := etcdtest.Start(t, members)
			data := onEtcd(cluster)
			c := &failoverCampaign{t: t, replicas: startReplicas(t, program, data, n, "--data-credentials", credentialsFile(t))}
			c.run(rand.New(rand.NewPCG(seed, uint64(i))), seed, etcdFaults(cluster, newEtcdAdmin(t, data.hosts)))
		})
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		cluster := pgtest.Start(t)
		c := &failoverCampaign{t: t, replicas: startReplicas(t, program, onPostgres(cluster), n)}
		c.run(rand.New(rand.NewPCG(seed, 2)), seed, postgresFaults(t, cluster, c.servers))
	})
}

// failoverCampaign is a run of the campaign.
type failoverCampaign struct {
	t *testing.T
	*replicas
	random     *rand.Rand
	ofDatabase func(random *rand.Rand) []outage
	calls      int
	reads      int
	faults     []string
}

// outage is something that happens to the servers or the database, and the way to end it.
type outage struct {
	kind    outageKind
	name    string
	do, end func()
}

// outageKind is what an outage happens to. Two faults at a time are of different kinds.
type outageKind int

const (
	ofServer outageKind = iota
	ofDatabase
	ofOperator // what an operator of the database does, or the network
)

// run runs all rounds. databaseFaults makes the faults of the database for one round.
func (c *failoverCampaign) run(random *rand.Rand, seed uint64, databaseFaults func(random *rand.Rand) []outage) {
	c.t.Logf("seed %d, %d rounds", seed, *failoverRounds)
	c.random, c.ofDatabase = random, databaseFaults
	for round := range *failoverRounds {
		if c.round(round); c.t.Failed() {
			return
		}
	}
	c.t.Logf("%d calls, %d reads; %v", c.calls, c.reads, c.faults)
}

// round disturbs the servers once while clients are at work, and checks the clients' answers.
func (c *failoverCampaign) round(number int) {
	h := &callHistory{begun: time.Now()}
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	working, rest := context.WithCancel(ctx)
	var clients, readers sync.WaitGroup
	begin := func(list string) {
		for n := range 3 {
			clients.Go(func() { c.work(ctx, working, h, list, n, fmt.Sprintf("%d-%d", number, n)) })
		}
	}
	// In a quiet round no call is under way when the fault comes, so a leader that is cut off has
	// nothing to wait for before it answers reads. The clients come when another server leads.
	quiet := c.random.IntN(2) == 0
	if !quiet {
		begin(c.list())
	}
	for i, s := range c.servers {
		for n := range 2 {
			readers.Go(func() { c.look(working, h, 10+2*i+n, s) })
		}
	}
	time.Sleep(time.Duration(c.random.IntN(200)) * time.Millisecond)
	leader := c.leader()
	what := c.disturb(leader, func() {
		if quiet {
			time.Sleep(replicaTTL + replicaTTL/4)
			begin(c.listEnding(leader))
		}
	})
	c.faults = append(c.faults, what)
	c.leader()
	released, read := h.count("release"), h.count("read")
	clitest.Await(c.t, &leader.log, "work after the failover", func() bool {
		return c.t.Failed() || h.count("release") >= released+20 && h.count("read") >= read+5
	})
	rest()
	clients.Wait()
	readers.Wait()
	c.check(number, what, h)
}

// disturb makes one or two faults, calls during, and heals the faults.
func (c *failoverCampaign) disturb(leader *replica, during func()) (what string) {
	long := replicaTTL + replicaTTL/2 + time.Duration(c.random.IntN(500))*time.Millisecond
	faults := append([]outage{
		{ofServer, "the leader is killed", leader.kill, leader.start},
		{ofServer, "the leader is stopped", func() { leader.signal(syscall.SIGSTOP) }, func() { leader.signal(syscall.SIGCONT) }},
		{ofServer, "the leader is cut off", func() { leader.cut(true) }, func() { leader.cut(false) }},
		{ofDatabase, "all servers are cut off", func() {
			for _, s := range c.servers {
				s.cut(true)
			}
		}, func() {
			for _, s := range c.servers {
				s.cut(false)
			}
		}},
	}, c.ofDatabase(c.random)...)
	first, second := faults[c.random.IntN(len(faults))], faults[c.random.IntN(len(faults))]
	chosen := []outage{first}
	if second.kind != first.kind && c.random.IntN(2) == 0 {
		// The operator's fault is made first, since the operator needs the database.
		chosen = []outage{first, second}
		if second.kind < first.kind {
			chosen = []outage{second, first}
		}
	}
	for _, f := range slices.Backward(chosen) {
		what += f.name + "; "
		f.do()
	}
	during()
	time.Sleep(long)
	for _, f := range chosen {
		f.end()
	}
	return what
}

// work acquires, renews and releases until working ends. The client repeats a call that fails, and
// its outcome is that of the last answer.
func (c *failoverCampaign) work(ctx, working context.Context, h *callHistory, list string, n int, id string) {
	client, err := proxyclient.New(proxyclient.Options{URL: list})
	if err != nil {
		c.t.Error(err)
		return
	}
	defer client.Close()
	random := rand.New(rand.NewPCG(uint64(n), uint64(len(id))))
	for i := 0; working.Err() == nil; i++ {
		request := proxyclient.Request{Ask: leaseapi.Ask{Type: "q", Count: 1 + random.IntN(2)}, RequestID: fmt.Sprintf("r%s-%d", id, i), Owner: id, TTL: time.Hour, Wait: time.Minute}
		var grant *proxyclient.Grant
		h.call(n, heldCall{kind: "acquire", count: request.Count}, func() (heldAnswer, bool) {
			if grant, err = client.Acquire(ctx, request); err != nil {
				c.t.Errorf("acquire: %v", err)
				return heldAnswer{}, false
			}
			return heldAnswer{leases: grant.Leases}, true
		})
		if grant == nil {
			return
		}
		for _, l := range grant.Leases {
			if random.IntN(2) == 0 {
				h.call(n, heldCall{kind: "renew", lease: l}, func() (heldAnswer, bool) {
					_, err := client.Renew(ctx, []leaseapi.Lease{l}, 0)
					if err != nil {
						c.t.Errorf("renew: %v", err)
					}
					return heldAnswer{}, err == nil
				})
			}
		}
		time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		for _, l := range grant.Leases {
			h.call(n, heldCall{kind: "release", lease: l}, func() (heldAnswer, bool) {
				// If the answer to the first try was lost, another client may have the name when
				// the second try comes. The server then answers that the second try is stale.
				_, err := client.Release(ctx, proxyclient.Releasing([]leaseapi.Lease{l}, ""))
				if err != nil {
					c.t.Errorf("release of %v: %v", l, err)
				}
				return heldAnswer{}, err == nil
			})
		}
	}
}

// look asks one server who holds what, also while the server is stopped or cut off. An answer
// counts whenever it comes, but a refusal does not.
func (c *failoverCampaign) look(working context.Context, h *callHistory, n int, s *replica) {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for working.Err() == nil {
		h.call(n, heldCall{kind: "read"}, func() (heldAnswer, bool) {
			resp, err := client.Get(s.url + leaseapi.PathPools)
			if err != nil {
				return heldAnswer{}, false
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			var reply leaseapi.PoolsReply
			if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(body, &reply) != nil || len(reply.Pools) != 1 {
				return heldAnswer{}, false
			}
			var out heldAnswer
			for _, l := range reply.Pools[0].Leases {
				out.leases = append(out.leases, l.Lease)
			}
			return out, true
		})
		time.Sleep(30 * time.Millisecond)
	}
}

// check checks the clients' answers of a round, at the end of which nothing is held.
func (c *failoverCampaign) check(number int, what string, h *callHistory) {
	pools, err := c.client().Pools(c.t.Context())
	if err != nil || pools[0].InUse+pools[0].Waiting != 0 {
		c.t.Errorf("round %d (%s): at its end %+v, %v", number, what, pools, err)
	}
	for _, op := range h.ops {
		if c.calls++; op.Input.(heldCall).kind == "read" {
			c.reads++
		}
	}
	if a, b, twice := heldTwice(h.ops); twice {
		c.t.Errorf("round %d (%s): held by two: %+v and %+v", number, what, a, b)
	}
	if result := porcupine.CheckOperationsTimeout(heldModel, h.ops, time.Minute); result != porcupine.Ok {
		c.t.Errorf("round %d (%s): the checker says %s: no order explains, or none was found, what the clients saw in %d calls", number, what, result, len(h.ops))
	}
}
