package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A command that does not exist is exit code 127 at once, since the full pool is not asked.
func TestMissingCommandAsksForNoLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, build(t, ""), "install=1")
	w.run(0, "acquire", "--type", "install", "--handle", w.path("blocker"))
	relay := w.relay()
	w.run(exitNotFound, "exec", "--type", "install", "--", "no-such-command")
	w.run(exitNotFound, "exec", "--type", "install", "--", "./no-such-file")
	if requests := relay.requests(""); len(requests) > 0 {
		t.Errorf("the proxy was asked: %v", requests)
	}
	w.run(0, "release", "--handle", w.path("blocker"))
}

// Each run has a higher LEASECTL_GENERATION than those before it, also the
// attempts of one run.
func TestGenerationGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, build(t, ""), "install=2")
	generations := w.run(0, "exec", "--type", "install", "--", "printenv", "LEASECTL_GENERATION")
	generations += w.run(4, "exec", "--type", "install", "--count", "2", "--attempts", "2", "--retry-on", "4", "--",
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
	w := newWorld(t, build(t, ""), "install=1")
	orphan := w.path("orphan")
	script := fmt.Sprintf(`sh -c 'sleep 0.1 & echo $! >%[1]s'
read pid <%[1]s
turns=0
while test -e /proc/$pid; do
	sleep 0.05
	turns=$((turns + 1)); test $turns -lt 400 || { cat /proc/$pid/status; exit 9; }
done
exit 5`, orphan)
	args := append(unshare[1:], w.program, "exec", "--type", "install", "--", "sh", "-c", script)
	cmd := exec.Command(unshare[0], args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	if code := exitCode(err); code != 5 {
		t.Errorf("exit code %d, want 5 (9: the orphan is a zombie)\n%s", code, out)
	}
	w.wantHeld()
}

// A command shorter than a second costs two requests. A longer one has its lease
// confirmed once, a second after the grant.
func TestConfirmLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, build(t, ""), "install=1")
	relay := w.relay()
	var short []seen
	w.await("a command shorter than a second", func() bool {
		before := len(relay.requests(""))
		w.run(0, "exec", "--type", "install", "--", "true")
		short = relay.requests("")[before:]
		return short[len(short)-1].at.Sub(short[0].at) < time.Second
	})
	if len(short) != 2 || short[0].path != leaseapi.PathAcquire || short[1].path != leaseapi.PathRelease {
		t.Errorf("a short command made the requests %v", short)
	}

	before, confirmed := len(relay.requests("")), w.path("confirmed")
	cmd := w.command("exec", "--type", "install", "--", "sh", "-c", "until test -e "+confirmed+"; do sleep 0.01; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.await("the confirmation, long before a renewal", func() bool { return len(relay.requests("")) >= before+2 })
	if err := os.WriteFile(confirmed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	long := relay.requests("")[before:]
	if len(long) != 3 || long[1].path != leaseapi.PathRenew || long[2].path != leaseapi.PathRelease {
		t.Fatalf("a longer command made the requests %v", long)
	}
	if after := long[1].at.Sub(long[0].at); after < time.Second {
		t.Errorf("confirmed %v after the request, want a second after the grant", after)
	}
	w.wantHeld()
}

// KILL of leasectl before it has confirmed frees the lease when the grant stops
// being provisional, long before its TTL is over.
func TestKillBeforeConfirmation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	w := newWorld(t, build(t, ""), "install=1")
	confirmation := leaseapi.PathRenew
	w.relay().silentFrom.Store(&confirmation) // on a slow machine it may come before the KILL
	file := w.path("pid")
	cmd := w.command("exec", "--type", "install", "--ttl", "10m", "--", "sh", "-c", "echo $$ >"+file+"; exec sleep 600")
	pid := w.child(cmd, file)
	cmd.Process.Kill()
	cmd.Wait()
	w.await("the lease to be free", func() bool { return w.pool("install").InUse == 0 })
	if lives(pid) {
		t.Error("the command lives on")
	}
	w.wantHeld()
}

// TERM ends exec and acquire within 3 s although the proxy answers nothing: while
// they wait for a lease, while acquire confirms it, and while exec gives it back.
func TestTermAgainstHungProxy(t *testing.T) {
	t.Parallel()
	const most = 5 * time.Second // a slow machine, but less than twice 3 s
	program := build(t, "")
	for _, tt := range []hungProxy{
		{name: "queued", args: []string{"exec"}, silentFrom: leaseapi.PathAcquire},
		{name: "queued with a handle", args: []string{"exec", "--handle", "h"}, silentFrom: leaseapi.PathAcquire},
		{name: "running", args: []string{"exec"}, running: true},
		{name: "running for a second", args: []string{"exec"}, silentFrom: leaseapi.PathRenew},
		{name: "confirming", args: []string{"acquire", "--handle", "h"}, silentFrom: leaseapi.PathRenew},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			promptly(t, most, func() time.Duration { return tt.terminate(newWorld(t, program, "install=1")) })
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
	t := w.t
	relay := w.relay()
	relay.silentFrom.Store(&p.silentFrom)
	file := w.path("pid")
	args := append(p.args, "--type", "install")
	if p.args[0] == "exec" {
		args = append(args, "--", "sh", "-c", "echo $$ >"+file+"; exec sleep 600")
	}
	cmd := w.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if p.running {
		w.child(cmd, file)
		relay.silent.Store(true)
	} else {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		w.await("it to ask", func() bool { return relay.taken.Load() > 0 })
	}
	begun := time.Now()
	cmd.Process.Signal(syscall.SIGTERM)
	code := exitCode(cmd.Wait())
	took = time.Since(begun)
	if code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d after %v\n%s", code, took, &stderr)
	}
	relay.silent.Store(false)
	w.run(0, "recover")
	w.run(0, "release", "--handle", "h")
	w.wantHeld()
	return took
}
