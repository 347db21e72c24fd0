package campaign

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	orderJobs = flag.Int("order-jobs", 80, "jobs of each part of TestOrderCampaign: 1000, for a whole campaign")
	orderSeed = flag.Uint64("order-seed", 0, "seed of TestOrderCampaign; 0 takes one")
)

// TestOrderCampaign lets jobs of different sizes and priorities wait for a counted pool. Some are
// killed, some are moved, and the server is killed and started again. The server's log tells who
// was granted what, and when. Of those that were there:
//   - none is granted ahead of one of better rank that fits;
//   - no more units than the pool has go ahead of one.
//
// All living jobs run, and nothing stays held.
//
//	go test -run TestOrderCampaign -order-jobs 1000 -timeout 1h ./cmd/leasectl/campaign
func TestOrderCampaign(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	seed := *orderSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for _, store := range []string{"a directory", "etcd"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d, %d jobs", seed, *orderJobs)
			args := []string{"--priority-aging", orderAging.String()}
			if store == "etcd" {
				args = append(args, "--data", etcdtest.Shared(t).URL("order"), "--leader-ttl", replicaTTL.String(), "--advertise", "http://127.0.0.1:1")
			}
			c := &orderCampaign{t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 1)), server: newOrderServer(t, program, args)}
			c.run()
			o := &orderOracle{t: t, waiting: make(map[string]*orderWaiter), held: make(map[string]int), old: make(map[string]bool)}
			for line := range strings.Lines(c.server.Log.String()) {
				o.see(strings.TrimSpace(line))
			}
			t.Logf("%d grants, %d ahead of others, %d by priority; %d moves", o.grants, o.overtakes, o.byPriority, o.moves)
			if o.grants < *orderJobs/2 || o.overtakes == 0 || o.byPriority == 0 {
				t.Error("too little happened to tell")
			}
			if t.Failed() {
				t.Log(c.server.Log.String())
			}
		})
	}
}

const (
	orderUnits = 20
	orderAging = 2 * time.Second
)

// newOrderServer starts a server with a counted pool.
func newOrderServer(t *testing.T, program string, args []string) *clitest.DurableServer {
	config := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "resources:\n- {type: mem, units: %d}\n", orderUnits), 0o600); err != nil {
		t.Fatal(err)
	}
	return clitest.NewDurableServer(t, program, append(args, "--config", config)...)
}

// orderCampaign is one run of the campaign.
type orderCampaign struct {
	t      *testing.T
	dir    string
	random *rand.Rand
	server *clitest.DurableServer
}

func (c *orderCampaign) run() {
	var running sync.WaitGroup
	defer running.Wait()
	restarts := map[int]bool{*orderJobs / 3: true, *orderJobs * 2 / 3: true}
	for i := range *orderJobs {
		units := []int{1, 1, 2, 3, 5, 8, 12, 18}[c.random.IntN(8)]
		priority := max(0, c.random.IntN(8)-4) * (c.random.IntN(3) - 1)
		owner := fmt.Sprintf("j%d", i)
		var stderr bytes.Buffer
		cmd := c.server.Command(filepath.Join(c.dir, "state"), "exec", "--type", "mem", "--count", strconv.Itoa(units), "--priority", strconv.Itoa(priority), "--owner", owner,
			"--ttl", "10s", "--grace-period", "1s", "--", "sleep", fmt.Sprint(0.05+0.4*c.random.Float64()))
		cmd.Stderr = &stderr
		cmd.WaitDelay = clitest.Patience // a command whose exec was killed may keep its stderr
		if err := cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
		killed := c.random.IntN(12) == 0
		after := time.Duration(c.random.IntN(800)) * time.Millisecond
		running.Go(func() {
			late := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
			defer late.Stop()
			if killed {
				time.AfterFunc(after, func() {
					c.note("killed owner=" + owner)
					cmd.Process.Kill()
				})
			}
			if err := cmd.Wait(); err != nil && !killed {
				c.t.Errorf("%s: %v\n%s", owner, err, &stderr)
			}
		})
		time.Sleep(time.Duration(c.random.IntN(120)) * time.Millisecond)
		if restarts[i] {
			c.restart()
		}
		if waiters := c.server.Pool().Waiters; len(waiters) > 0 && c.random.IntN(10) == 0 {
			w := waiters[c.random.IntN(len(waiters))]
			c.server.Client.Move(c.server.Context(), leaseapi.MoveRequest{RequestID: w.RequestID, Priority: c.random.IntN(7) - 3, Reason: "the campaign says so"}) // it may have been granted
		}
	}
	running.Wait()
	clitest.Await(c.t, &c.server.Log, "nothing to be held", func() bool {
		p := c.server.Pool()
		if p.InUse > 0 { // of a killed one: the next command gives it back
			c.server.Command(filepath.Join(c.dir, "state"), "recover").Run()
		}
		return p.InUse == 0 && p.Waiting == 0
	})
}

// note writes a line of the campaign into the server's log.
func (c *orderCampaign) note(what string) {
	fmt.Fprintf(&c.server.Log, "time=%s level=CAMPAIGN msg=%s\n", time.Now().UTC().Format(time.RFC3339Nano), what)
}

// restart kills the server, which may lose the last lines of its log, and starts it again. When it
// has settled, its leases are noted.
func (c *orderCampaign) restart() {
	c.server.Cmd.Process.Kill()
	c.server.Cmd.Wait()
	c.note("restarts")
	c.server.Start()
	time.Sleep(3 * time.Second) // in which the clients come back; it is no harm if one takes longer
	var held []string
	for _, l := range c.server.Pool().Leases {
		held = append(held, fmt.Sprintf("%s:%d", l.Name, l.Units))
	}
	c.note("settled held=" + strings.Join(held, ","))
}

// orderOracle judges the order of grants by the lines of the log.
type orderOracle struct {
	t        *testing.T
	waiting  map[string]*orderWaiter // by owner
	held     map[string]int          // units by name
	old      map[string]bool         // names that were granted before the last restart
	restart  int                     // how many there were
	settling bool
	arrivals int

	grants, overtakes, byPriority, moves int
}

type orderWaiter struct {
	units, priority int
	at              time.Time
	arrival         int       // place in the order of the lines
	restart         int       // how many restarts there were before it came
	since           time.Time // when it began to wait as it does now
	there           bool
	overtaken       int
}

var orderField = regexp.MustCompile(`(\w+)=("[^"]*"|\[[^\]]*\]|\S*)`)

func (o *orderOracle) see(line string) {
	fields := make(map[string]string)
	for _, m := range orderField.FindAllStringSubmatch(line, -1) {
		if _, twice := fields[m[1]]; !twice {
			fields[m[1]] = m[2]
		}
	}
	number := func(key string) int { n, _ := strconv.Atoi(fields[key]); return n }
	owner := fields["owner"]
	switch fields["msg"] {
	case "queued":
		o.waiting[owner] = o.arrive(fields["time"], number("count"), number("priority"))
	case "returned":
		if w := o.waiting[owner]; w != nil {
			w.there, w.since = true, o.time(fields["time"])
		}
	case "moved":
		if w := o.waiting[owner]; w != nil {
			o.moves++
			w.priority, w.since = number("to"), o.time(fields["time"])
		}
	case "granted":
		units := max(1, number("units"))
		// The line comes after the commit, and so after lines of requests that came meanwhile. How
		// long it had waited when it was granted tells when that was; those that came later, or
		// not clearly before, do not count.
		decided := o.time(fields["time"]).Add(-3 * time.Second)
		if r := o.waiting[owner]; r == nil { // granted at once
			o.waiting[owner] = o.arrive(fields["time"], units, number("priority"))
		} else if waited, err := time.ParseDuration(fields["waited"]); err == nil && r.restart == o.restart {
			decided = r.at.Add(waited - 500*time.Millisecond)
		}
		if number("overtook") > 0 {
			o.overtakes++
		}
		o.grant(owner, units, strings.Trim(fields["names"], "[]"), decided)
	case "released", "expired", "broken":
		delete(o.held, strings.Trim(fields["names"], "[]"))
	case "cancelled", "removed", "killed":
		delete(o.waiting, owner)
	case "restarts":
		o.restart++
		o.settling = true
		for name := range o.held {
			o.old[name] = true
		}
		for _, w := range o.waiting {
			w.there = false
		}
	case "settled":
		o.settle(fields["held"])
	}
}

func (o *orderOracle) arrive(at string, units, priority int) *orderWaiter {
	when := o.time(at)
	o.arrivals++
	return &orderWaiter{units: units, priority: priority, at: when, since: when, arrival: o.arrivals, restart: o.restart, there: true}
}

func (o *orderOracle) time(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		o.t.Fatal(err)
	}
	return at
}

// settle corrects what is held by what the server says after a restart: the log may lack the last
// lines before it.
func (o *orderOracle) settle(held string) {
	o.settling = false
	now := make(map[string]int)
	for pair := range strings.SplitSeq(held, ",") {
		name, units, _ := strings.Cut(pair, ":")
		if name != "" {
			now[name], _ = strconv.Atoi(units)
		}
	}
	for name := range o.old {
		if now[name] == 0 {
			delete(o.held, name)
		}
	}
	for name, units := range now {
		o.held[name] = units
	}
	clear(o.old)
}

// better reports whether a has a better rank than b; known is false if the log does not tell. The
// server's clock stood still while it was down.
func better(a, b *orderWaiter) (better, known bool) {
	if a.priority == b.priority {
		return a.arrival < b.arrival, true
	}
	margin := 100 * time.Millisecond
	if a.restart != b.restart {
		margin = 10 * time.Second
	}
	apart := a.at.Add(-time.Duration(a.priority) * orderAging).Sub(b.at.Add(-time.Duration(b.priority) * orderAging))
	return apart < 0, apart.Abs() > margin
}

func (o *orderOracle) grant(owner string, units int, name string, decided time.Time) {
	r := o.waiting[owner]
	delete(o.waiting, owner)
	inUse := 0
	for _, n := range o.held {
		inUse += n
	}
	o.held[name] = units
	o.grants++
	for other, w := range o.waiting {
		if first, known := better(w, r); !known || !first || !w.there || o.settling || w.since.After(decided) {
			if known && !first && w.arrival < r.arrival && w.there {
				o.byPriority++
			}
			continue
		}
		if w.overtaken += units; w.overtaken > orderUnits {
			o.t.Errorf("%s, which wants %d units, was overtaken by %d, at last by %s", other, w.units, w.overtaken, owner)
		}
		if inUse+w.units <= orderUnits {
			o.t.Errorf("%s, which wants %d units, was overtaken by %s, while %d of %d were in use", other, w.units, owner, inUse, orderUnits)
		}
	}
}
