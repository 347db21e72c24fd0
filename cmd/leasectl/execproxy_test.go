package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
)

// A command that does not exist is exit code 127 at once, since the full pool is not asked.
func TestMissingCommandAsksForNoLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	w.Run(0, "acquire", "--type", "install", "--handle", w.Path("blocker"))
	relay := w.Relay()
	w.Run(exitNotFound, "exec", "--type", "install", "--", "no-such-command")
	w.Run(exitNotFound, "exec", "--type", "install", "--", "./no-such-file")
	if requests := relay.Requests(""); len(requests) > 0 {
		t.Errorf("the proxy was asked: %v", requests)
	}
	w.Run(0, "release", "--handle", w.Path("blocker"))
}

// Each run has a higher LEASECTL_GENERATION than those before it, also the
// attempts of one run.
func TestGenerationGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=2")
	generations := w.Run(0, "exec", "--type", "install", "--", "printenv", "LEASECTL_GENERATION")
	generations += w.Run(4, "exec", "--type", "install", "--count", "2", "--attempts", "2", "--retry-on", "4", "--",
		"sh", "-c", "printenv LEASECTL_GENERATION; exit 4")
	var before uint64
	for line := range strings.Lines(generations) {
		generation, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil || generation <= before {
			t.Errorf("%q after %d: %v", line, before, err)
		}
		before = generation
	}
	if n := strings.Count(generations, "\n"); n != 3 {
		t.Errorf("%d generations were printed, want 3:\n%s", n, generations)
	}
}

// As process 1 of a PID namespace exec reaps an orphan that its command leaves.
func TestExecAsProcess1(t *testing.T) {
	t.Parallel()
	unshare := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no PID namespaces here: %v: %s", err, out)
	}
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	orphan := w.Path("orphan")
	script := fmt.Sprintf(`sh -c 'sleep 0.1 & echo $! >"%[1]s"'
read pid <"%[1]s"
turns=0
while test -e /proc/$pid; do
	sleep 0.05
	turns=$((turns + 1)); test $turns -lt 400 || { cat /proc/$pid/status; exit 9; }
done
exit 5`, orphan)
	args := append(unshare[1:], w.Program, "exec", "--type", "install", "--", "sh", "-c", script)
	cmd := exec.Command(unshare[0], args...)
	cmd.Dir, cmd.Env = w.Dir, w.Env
	out, err := cmd.CombinedOutput()
	if code := clitest.ExitCode(err); code != 5 {
		t.Errorf("exit code %d, want 5 (9: the orphan is a zombie)\n%s", code, out)
	}
	w.WantHeld()
}

// A command shorter than [holder.ConfirmAfter] costs two requests. A longer one has its lease
// confirmed once, that long after the grant.
func TestConfirmLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	relay := w.Relay()
	var short []clitest.Seen
	w.Await("a short command", func() bool {
		before := len(relay.Requests(""))
		w.Run(0, "exec", "--type", "install", "--", "true")
		short = relay.Requests("")[before:]
		return short[len(short)-1].At.Sub(short[0].At) < holder.ConfirmAfter
	})
	if len(short) != 2 || short[0].Path != leaseapi.PathAcquire || short[1].Path != leaseapi.PathRelease {
		t.Errorf("a short command made the requests %v", short)
	}

	clitest.Promptly(t, time.Second-holder.ConfirmAfter, func() time.Duration {
		before := len(relay.Requests(""))
		cmd := w.Command("exec", "--type", "install", "--", "cat")
		stdin, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		w.Await("the confirmation, long before a renewal", func() bool { return len(relay.Requests("")) >= before+2 })
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		long := relay.Requests("")[before:]
		if len(long) != 3 || long[1].Path != leaseapi.PathRenew || long[2].Path != leaseapi.PathRelease {
			t.Fatalf("a longer command made the requests %v", long)
		}
		after := long[1].At.Sub(long[0].At)
		if after < holder.ConfirmAfter {
			t.Errorf("confirmed %v after the request", after)
		}
		return after
	})
	w.WantHeld()
}

// KILL of leasectl before it has confirmed frees the lease when the grant stops
// being provisional, long before its TTL is over.
func TestKillBeforeConfirmation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	confirmation := leaseapi.PathRenew
	w.Relay().SilentFrom.Store(&confirmation) // on a slow machine it may come before the KILL
	file := w.Path("pid")
	cmd := w.Command("exec", "--type", "install", "--ttl", "10m", "--", "sh", "-c", "echo $$ >'"+file+"'; exec sleep 600")
	pid := w.child(cmd, file)
	cmd.Process.Kill()
	cmd.Wait()
	w.Await("the lease to be free", func() bool { return w.Pool("install").InUse == 0 })
	if clitest.Lives(pid) {
		t.Error("the command lives on")
	}
	w.WantHeld()
}

// An outage that begins before the grant is confirmed ends the command when the unconfirmed grant may
// end, and exec says that.
func TestOutageBeforeConfirmation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a third of a minute")
	}
	t.Parallel()
	for _, args := range [][]string{{"exec"}, {"exec", "--shared", "together"}} {
		t.Run(args[len(args)-1], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, clitest.Build(t, ""), "install=1")
			confirmation := leaseapi.PathRenew
			w.Relay().SilentFrom.Store(&confirmation)
			var stderr bytes.Buffer
			cmd := w.Command(append(args, "--type", "install", "--", "sleep", "600")...)
			cmd.Stderr = &stderr
			code := clitest.ExitCode(cmd.Run())
			if text := stderr.String(); code != exitLost || !strings.Contains(text, "no renewal has confirmed the grant, so it lasts for 30s only: stopping the command") {
				t.Errorf("exit code %d\n%s", code, text)
			}
		})
	}
}

// TERM ends exec and acquire within 3 s although the proxy answers nothing: while
// they wait for a lease, while acquire confirms it, and while exec gives it back.
func TestTermAgainstHungProxy(t *testing.T) {
	t.Parallel()
	const most = 5 * time.Second // a slow machine, but less than twice 3 s
	program := clitest.Build(t, "")
	for _, tt := range []hungProxy{
		{name: "queued", args: []string{"exec"}, silentFrom: leaseapi.PathAcquire},
		{name: "queued with a handle", args: []string{"exec", "--handle", "h"}, silentFrom: leaseapi.PathAcquire},
		{name: "running", args: []string{"exec"}, running: true},
		{name: "running for a second", args: []string{"exec"}, silentFrom: leaseapi.PathRenew},
		{name: "confirming", args: []string{"acquire", "--handle", "h"}, silentFrom: leaseapi.PathRenew},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clitest.Promptly(t, most, func() time.Duration { return tt.terminate(newWorld(t, program, "install=1")) })
		})
	}
}

// hungProxy is a command whose proxy falls silent and stays silent.
type hungProxy struct {
	name       string
	args       []string
	silentFrom string // silent from the first request for this path on
	running    bool   // silent once the command of exec runs
}

// terminate sends TERM to the command when the proxy is silent, and returns how long it
// took to end.
func (p hungProxy) terminate(w *world) (took time.Duration) {
	t := w.T
	relay := w.Relay()
	relay.SilentFrom.Store(&p.silentFrom)
	file := w.Path("pid")
	args := append(p.args, "--type", "install")
	if p.args[0] == "exec" {
		args = append(args, "--", "sh", "-c", "echo $$ >'"+file+"'; exec sleep 600")
	}
	cmd := w.Command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if p.running {
		w.child(cmd, file)
		relay.Silent.Store(true)
	} else {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		w.Await("it to ask", func() bool { return relay.Taken.Load() > 0 })
	}
	begun := time.Now()
	cmd.Process.Signal(syscall.SIGTERM)
	code := clitest.ExitCode(cmd.Wait())
	took = time.Since(begun)
	if code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d after %v\n%s", code, took, &stderr)
	}
	relay.Silent.Store(false)
	w.Run(0, "recover")
	w.Run(0, "release", "--handle", "h")
	w.WantHeld()
	return took
}
