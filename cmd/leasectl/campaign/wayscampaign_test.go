package campaign

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

var (
	waysRounds = flag.Int("ways-rounds", 2, "faults of TestWaysCampaign: 200, for a whole campaign")
	waysSeed   = flag.Uint64("ways-seed", 0, "seed of TestWaysCampaign; 0 takes one")
)

// TestWaysCampaign disturbs the leader, or the database, while jobs reach the servers on each [way] at
// the same time. Each round has one fault. The fault lasts longer than the leader's TTL.
//
//	go test -run TestWaysCampaign -ways-rounds 200 -timeout 2h ./cmd/leasectl/campaign
//
// It checks, on each way:
//   - the jobs that run keep their leases, alone and shared, and give them back when they end;
//   - the jobs that wait keep their places;
//   - renewals succeed, and a late release is carried out;
//   - a job that ends in the middle of the fault gives its lease back;
//   - a client of version 1 can release what it holds.
//
// On a machine on which servers need long to lead, or lose the lead for want of a processor, jobs may give up:
// such a round ends the campaign, and is not judged.
func TestWaysCampaign(t *testing.T) {
	t.Parallel()
	seed := *waysSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, 0))
	program := clitest.Build(t, "")
	r := startReplicas(t, program, onPostgres(pgtest.Start(t)), 1, waysPools()...)
	r.probe()
	c := &waysCampaign{T: t, replicas: r, client: r.client()}
	for _, w := range r.ways() {
		c.groups = append(c.groups, newWayGroup(c, program, w))
	}
	t.Logf("seed %d, %d rounds", seed, *waysRounds)
	c.each(func(g *wayGroup) {
		g.watch = g.start("exec", "--type", g.pool("watch"), "--ttl", "20s", "--grace-period", "2s", "--", "cat")
	})
	c.each(func(g *wayGroup) { g.watch.mustHold() })
	for range *waysRounds {
		all := c.faults()
		f := all[random.IntN(len(all))]
		t.Log(f.name)
		if !c.round(f) {
			return
		}
	}
	c.each(func(g *wayGroup) { g.watch.finish() })
	c.each(func(g *wayGroup) { g.nothingLeft() })
	c.judge(true)
}

// wayPools are the pools of each way, with one lease each.
var wayPools = []string{"watch", "run", "short", "shared", "kept", "late", "old"}

// waysPools returns flags of serve that make the pools of all ways, and allow the names of [httpProxy].
func waysPools() (flags []string) {
	flags = []string{"--host", "s0.test,s1.test,s2.test"}
	for _, w := range wayNames {
		for _, p := range wayPools {
			flags = append(flags, "--pool", w+"-"+p+"=1")
		}
	}
	return flags
}

// waysCampaign is a run of the campaign.
type waysCampaign struct {
	*testing.T
	*replicas
	client *proxyclient.Client // reaches the servers directly
	groups []*wayGroup

	mu         sync.Mutex
	complaints []string // of jobs, which are no faults if the machine is slow
}

// Errorf notes a fault for [waysCampaign.judge].
func (c *waysCampaign) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complaints = append(c.complaints, fmt.Sprintf(format, args...))
}

func (c *waysCampaign) Failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.complaints) > 0 || c.T.Failed()
}

// judge reports what went wrong so far, as faults if the servers were prompt. It returns whether nothing did.
func (c *waysCampaign) judge(prompt bool) bool {
	for _, complaint := range c.complaints {
		if prompt {
			c.T.Error(complaint)
		} else {
			c.Log("the machine is slow: ", complaint)
		}
	}
	return len(c.complaints) == 0
}

// each calls do for all groups at the same time.
func (c *waysCampaign) each(do func(*wayGroup)) {
	var all sync.WaitGroup
	for _, g := range c.groups {
		all.Go(func() { do(g) })
	}
	all.Wait()
}

// faults returns what may happen to the servers now.
func (c *waysCampaign) faults() []outage {
	leader := c.leader()
	cutAll := func(isCut bool) func() {
		return func() {
			for _, s := range c.servers {
				s.cut(isCut)
			}
		}
	}
	return []outage{
		{ofServer, "the leader is killed", leader.kill, leader.start},
		{ofServer, "the leader is stopped", func() { leader.signal(syscall.SIGSTOP) }, func() { leader.signal(syscall.SIGCONT) }},
		{ofServer, "the leader is ended by TERM", func() { leader.signal(syscall.SIGTERM) }, leader.start},
		{ofServer, "the leader is cut off", func() { leader.cut(true) }, func() { leader.cut(false) }},
		{ofDatabase, "the database is away", cutAll(true), cutAll(false)},
	}
}

// round makes one fault while jobs run and wait on all ways, and checks what became of them. It returns whether
// that is as it should be.
func (c *waysCampaign) round(f outage) bool {
	elections := c.elections()
	c.each((*wayGroup).begin)
	began := time.Now()
	f.do()
	c.each((*wayGroup).during)
	time.Sleep(replicaTTL + replicaTTL/2)
	f.end()
	c.leader()
	took := time.Since(began)
	c.each((*wayGroup).after)
	elections = c.elections() - elections
	c.Logf("a server led after %v, the last of %d", took, elections)
	return c.judge(took < 6*time.Second && elections <= 1) // releases try for ten seconds
}

// elections returns how often a server has begun to lead.
func (c *waysCampaign) elections() (n int) {
	for _, s := range c.servers {
		n += strings.Count(s.log.String(), `msg="this server leads"`)
	}
	return n
}

// wayGroup are the jobs that reach the servers on one way.
type wayGroup struct {
	*waysCampaign
	way
	program, dir string
	watch        *wayJob // runs as long as the campaign

	// Of the round:
	run, short *wayJob
	waiting    []*wayJob
	shared     []*wayJob
	renewing   *wayJob
	kept       string // handle
	old        string // name of the lease of a client of version 1
}

func newWayGroup(c *waysCampaign, program string, w way) *wayGroup {
	return &wayGroup{waysCampaign: c, way: w, program: program, dir: clitest.ShortDir(c.T)}
}

func (g *wayGroup) pool(name string) string { return g.way.name + "-" + name }

// wayJob is a command of leasectl under way.
type wayJob struct {
	*wayGroup
	args   []string
	cmd    *exec.Cmd
	stdin  io.Closer // what runs under exec ends with it
	stderr clitest.LiveLog
	stdout bytes.Buffer
	ended  chan struct{}
	code   int // once it has ended
}

// start starts leasectl. It is killed when the test ends.
func (g *wayGroup) start(args ...string) *wayJob {
	j := &wayJob{wayGroup: g, args: args, cmd: exec.Command(g.program, args...), ended: make(chan struct{})}
	j.cmd.Env = append(os.Environ(), "LEASECTL_STATE_DIR="+filepath.Join(g.dir, "state"), "LEASECTL_OWNER=job-"+g.way.name, "LEASE_PROXY_SERVER_URL="+g.proxy)
	j.cmd.Env = append(j.cmd.Env, g.env...)
	j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr = g.dir, &j.stdout, &j.stderr
	var err error
	if j.stdin, err = j.cmd.StdinPipe(); err == nil {
		err = j.cmd.Start()
	}
	if err != nil {
		g.Errorf("%v", err)
		j.code = -2
		close(j.ended)
		return j
	}
	go func() {
		j.code = clitest.ExitCode(j.cmd.Wait())
		close(j.ended)
	}()
	g.Cleanup(func() { j.cmd.Process.Kill(); <-j.ended })
	return j
}

// mustEnd waits for the end of the command, which must succeed, and returns its standard output.
func (j *wayJob) mustEnd() string {
	select {
	case <-j.ended:
	case <-time.After(clitest.Patience):
		j.Errorf("%s: %v does not end\n%s", j.way.name, j.args, &j.stderr)
		return ""
	}
	if j.code != 0 {
		j.Errorf("%s: %v: exit code %d\n%s", j.way.name, j.args, j.code, &j.stderr)
	}
	return strings.TrimSpace(j.stdout.String())
}

// finish ends the command under an exec, which must give its lease back.
func (j *wayJob) finish() {
	j.stdin.Close()
	j.mustEnd()
	if text := j.stderr.String(); strings.Contains(text, "keeps what is owed") {
		j.Errorf("%s: %v did not release\n%s", j.way.name, j.args, text)
	}
}

// mustHold waits until the exec has its lease.
func (j *wayJob) mustHold() {
	j.await(j, "its lease", func() bool { return strings.Contains(j.stderr.String(), "acquired ") || j.hasEnded() })
}

func (j *wayJob) hasEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// await waits until so is true. Unlike [clitest.Await] it may be called in any goroutine.
func (g *wayGroup) await(j *wayJob, what string, so func() bool) {
	for end := time.Now().Add(clitest.Patience); !so() && !g.Failed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			text := ""
			if j != nil {
				text = fmt.Sprintf("%v\n%s", j.args, &j.stderr)
			}
			g.Errorf("%s: waited in vain for %s %s", g.way.name, what, text)
			return
		}
	}
}

// state returns the pool with that name, as the leader has it.
func (g *wayGroup) state(name string) leaseapi.Pool {
	pools, err := g.client.Pools(g.Context())
	if err != nil {
		return leaseapi.Pool{InUse: -1}
	}
	i := slices.IndexFunc(pools, func(p leaseapi.Pool) bool { return p.Type == g.pool(name) })
	return pools[i]
}

// begin starts the jobs of a round.
func (g *wayGroup) begin() {
	g.run = g.start("exec", "--type", g.pool("run"), "--", "cat")
	g.short = g.start("exec", "--type", g.pool("short"), "--", "cat")
	g.shared = nil
	for range 2 {
		g.shared = append(g.shared, g.start("exec", "--type", g.pool("shared"), "--shared", "together", "--", "cat"))
	}
	g.run.mustHold()
	g.waiting = nil
	os.Remove(filepath.Join(g.dir, "order"))
	for i := range 2 {
		g.waiting = append(g.waiting, g.start("exec", "--type", g.pool("run"), "--", "sh", "-c", fmt.Sprintf("echo %d >> order", i)))
		g.await(g.waiting[i], "its place", func() bool { return g.state("run").Waiting == i+1 })
	}
	g.short.mustHold()
	for _, j := range g.shared {
		g.await(j, "the shared lease", func() bool { return strings.Contains(j.stderr.String(), g.pool("shared")+"-0") || j.hasEnded() })
	}
	// The commits of these grants make the places durable.
	kept := g.start("acquire", "--type", g.pool("kept"), "--ttl", "1h")
	late := g.start("acquire", "--type", g.pool("late"), "--release-after", "3s")
	g.kept = kept.mustEnd()
	late.mustEnd()
	if g.single() {
		g.await(nil, "a lease of version 1", func() bool {
			g.old = g.asVersionOne(leaseapi.PathAcquire+"?type="+g.pool("old"), "")
			return g.old != ""
		})
	}
}

// during does what jobs do in the middle of the fault.
func (g *wayGroup) during() {
	g.renewing = g.start("renew", "--handle", g.kept)
	g.short.stdin.Close()
}

// after checks what became of the jobs of a round.
func (g *wayGroup) after() {
	g.short.finish()
	g.renewing.mustEnd()
	g.start("release", "--handle", g.kept).mustEnd()
	for _, j := range append(slices.Clone(g.shared), g.run) {
		if j.hasEnded() {
			g.Errorf("%s: %v ended with %d\n%s", g.way.name, j.args, j.code, &j.stderr)
		}
		j.finish()
	}
	for _, j := range g.waiting {
		j.finish()
	}
	if order, _ := os.ReadFile(filepath.Join(g.dir, "order")); string(order) != "0\n1\n" {
		g.Errorf("%s: the jobs that waited ran in the order %q", g.way.name, order)
	}
	if g.old != "" {
		g.await(nil, "a release of version 1", func() bool {
			return g.asVersionOne(leaseapi.PathRelease, `{"names":["`+g.old+`"]}`) != "" || g.state("old").InUse == 0
		})
	}
	g.await(nil, "the late release", func() bool { return g.state("late").InUse == 0 })
	if g.watch.hasEnded() {
		g.Errorf("%s: the long job ended with %d\n%s", g.way.name, g.watch.code, &g.watch.stderr)
	}
}

// single reports whether the way is one URL, so that clients of version 1 can take it.
func (g *wayGroup) single() bool { return !strings.Contains(g.proxy, ",") && len(g.env) == 0 }

// asVersionOne makes a call as a client of version 1 does, once. It returns the name of a lease that
// was granted, or "done"; empty: the call failed.
func (g *wayGroup) asVersionOne(path, body string) string {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(g.proxy+path, "application/json", strings.NewReader(body))
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		return ""
	}
	if strings.Contains(string(text), g.pool("old")+"-0") && path != leaseapi.PathRelease {
		return g.pool("old") + "-0"
	}
	return "done"
}

// nothingLeft checks that no lease of the group is held, and that nobody waits.
func (g *wayGroup) nothingLeft() {
	for _, name := range wayPools {
		g.await(nil, "the end of all leases of "+name, func() bool {
			p := g.state(name)
			return p.InUse == 0 && p.Waiting == 0
		})
	}
}
