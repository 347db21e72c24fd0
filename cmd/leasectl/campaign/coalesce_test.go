package campaign

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

var coalesceArrivals = flag.Int("coalesce-arrivals", 60, "execs that come during the run of each part of TestCoalesceCampaign: 1000, for a whole campaign")

// TestCoalesceCampaign starts many execs of one key while another exec of that key runs. A tenth of
// them is killed while they wait; then the server is killed and started again. All living execs
// end with the exit code of one run: with once it is the run under way, with join the next run.
// If the exec of that run is killed, it is one more run.
//
//	go test -run TestCoalesceCampaign -coalesce-arrivals 1000 -timeout 1h ./cmd/leasectl/campaign
func TestCoalesceCampaign(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	for _, tt := range []struct {
		mode       string
		killLeader bool // kill the exec of the run that the arrivals wait for
		runs       int  // how many there are; all end with the code of the last
	}{
		{leaseapi.CoalesceOnce, false, 1},
		{leaseapi.CoalesceOnce, true, 2},
		{leaseapi.CoalesceJoin, false, 2},
		{leaseapi.CoalesceJoin, true, 3},
	} {
		t.Run(fmt.Sprintf("%s leader killed %t", tt.mode, tt.killLeader), func(t *testing.T) {
			if *coalesceArrivals <= 100 { // else one part alone has enough processes
				t.Parallel()
			}
			b := newBurst(t, program, tt.mode)
			first := b.start("first")
			b.awaitRun(1)
			arrivals := make([]*arrival, *coalesceArrivals)
			for i := range arrivals {
				arrivals[i] = b.start(fmt.Sprint("arrival-", i))
			}
			b.awaitAll(arrivals)
			// This also kills the first arrival, which the others follow with join.
			for i := 0; i < len(arrivals); i += 10 {
				arrivals[i].kill()
			}
			living := slices.DeleteFunc(slices.Clone(arrivals), func(a *arrival) bool { return a.killed })
			var owners []string
			for _, a := range living {
				owners = append(owners, a.owner)
			}
			b.server.AwaitStored(owners) // the restarted server must find them
			b.server.Restart()
			b.awaitAll(living)

			leader := first
			if tt.mode == leaseapi.CoalesceJoin {
				b.end(1)
				first.want(11)
				b.awaitRun(2)
				leader = b.leader(living)
			}
			if tt.killLeader {
				leader.kill()
				b.recoverUntil(tt.runs)
			}
			b.end(tt.runs)
			for _, a := range append(living, first) {
				if a == first && tt.mode == leaseapi.CoalesceJoin {
					continue // it has ended
				}
				if !a.killed {
					a.want(10 + tt.runs)
				}
			}
			b.await("nothing to be held", func() bool { return b.server.Pool().InUse == 0 })
			if b.begun(tt.runs + 1) {
				t.Errorf("there were more than %d runs", tt.runs)
			}
		})
	}
}

// burst is a set of execs of one key whose runs merge.
type burst struct {
	t      *testing.T
	dir    string
	mode   string
	server *clitest.DurableServer
	all    []*arrival
}

func newBurst(t *testing.T, program, mode string) *burst {
	b := &burst{t: t, dir: t.TempDir(), mode: mode, server: clitest.NewDurableServer(t, program, "--pool", "q=3")}
	// The nth run makes run-n, waits for go-n and ends with exit code 10 + n.
	script := `n=1
until mkdir "run-$n" 2>/dev/null; do n=$((n + 1)); done
while ! test -e "go-$n"; do sleep 0.02; done
exit $((10 + n))
`
	if err := os.WriteFile(filepath.Join(b.dir, "work.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, a := range b.all {
			a.kill()
		}
	})
	return b
}

// arrival is one exec of a burst.
type arrival struct {
	t      *testing.T
	owner  string
	cmd    *exec.Cmd
	output bytes.Buffer
	wait   func() error
	killed bool
}

func (b *burst) command(args ...string) *exec.Cmd {
	cmd := b.server.Command(filepath.Join(b.dir, "state"), args...)
	cmd.Dir = b.dir
	return cmd
}

func (b *burst) start(owner string) *arrival {
	b.t.Helper()
	a := &arrival{t: b.t, owner: owner, cmd: b.command("exec", "--type", "q", "--key", "k", "--coalesce", b.mode, "--owner", owner, "--", "sh", "work.sh")}
	a.cmd.Stderr = &a.output
	// A command whose exec was killed must not keep the test waiting for its stderr.
	a.cmd.WaitDelay = clitest.Patience
	if err := a.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	a.wait = sync.OnceValue(a.cmd.Wait)
	b.all = append(b.all, a)
	return a
}

func (a *arrival) kill() {
	a.killed = true
	a.cmd.Process.Kill()
	a.wait()
}

// want waits for the end of the exec, and checks its exit code.
func (a *arrival) want(code int) {
	a.t.Helper()
	late := time.AfterFunc(clitest.Patience, func() { a.cmd.Process.Kill() })
	defer late.Stop()
	if got := clitest.ExitCode(a.wait()); got != code {
		a.t.Errorf("%s: exit code %d, want %d\n%s", a.owner, got, code, &a.output)
	}
}

func (b *burst) await(what string, so func() bool) {
	b.t.Helper()
	clitest.Await(b.t, &b.server.Log, what, so)
}

// awaitAll waits until the server knows all arrivals, and they are connected.
func (b *burst) awaitAll(arrivals []*arrival) {
	b.t.Helper()
	b.await("all to wait", func() bool {
		here := make(map[string]bool)
		for _, w := range b.server.Pool().Waiters {
			here[w.Owner] = !w.Away
		}
		return !slices.ContainsFunc(arrivals, func(a *arrival) bool { return !here[a.owner] })
	})
}

func (b *burst) begun(run int) bool {
	return clitest.Exists(filepath.Join(b.dir, fmt.Sprint("run-", run)))
}

func (b *burst) awaitRun(run int) {
	b.t.Helper()
	b.await(fmt.Sprint("run ", run), func() bool { return b.begun(run) })
}

// recoverUntil gives back the leases of killed execs until the given run begins.
func (b *burst) recoverUntil(run int) {
	b.t.Helper()
	b.await(fmt.Sprint("run ", run), func() bool {
		b.command("recover").Run()
		return b.begun(run)
	})
}

// end lets a run end.
func (b *burst) end(run int) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, fmt.Sprint("go-", run)), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// leader returns the arrival that runs.
func (b *burst) leader(arrivals []*arrival) *arrival {
	b.t.Helper()
	leases := b.server.Pool().Leases
	i := slices.IndexFunc(arrivals, func(a *arrival) bool { return len(leases) == 1 && a.owner == leases[0].Owner })
	if i < 0 {
		b.t.Fatalf("one of them should run, but %+v is held", leases)
	}
	return arrivals[i]
}
