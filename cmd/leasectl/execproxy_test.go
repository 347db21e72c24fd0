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

// A command that does not exist is 127 at once: the full pool is not asked.
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
// confirmed once, a second after its start.
func TestConfirmLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, build(t, ""), "install=1")
	relay := w.relay()
	w.run(0, "exec", "--type", "install", "--", "true")
	if requests := relay.requests(""); len(requests) != 2 || requests[0].path != leaseapi.PathAcquire || requests[1].path != leaseapi.PathRelease {
		t.Errorf("a short command made the requests %v", requests)
	}

	started := w.path("started")
	w.run(0, "exec", "--type", "install", "--", "sh", "-c", "touch "+started+"; sleep 3")
	renewals := relay.requests(leaseapi.PathRenew)
	if len(renewals) != 1 {
		t.Fatalf("a command of 3 s made the renewals %v, want one", renewals)
	}
	info, err := os.Stat(started)
	if err != nil {
		t.Fatal(err)
	}
	asked := relay.requests(leaseapi.PathAcquire)[1].at
	if after := renewals[0].at.Sub(asked); after < time.Second {
		t.Errorf("confirmed %v after the request, want a second after the grant", after)
	}
	if after := renewals[0].at.Sub(info.ModTime()); after > 2500*time.Millisecond {
		t.Errorf("confirmed %v after the start, which is near its end", after)
	}
	w.wantHeld()
}

// KILL of leasectl before it has confirmed frees the lease when the grant stops
// being provisional, long before its TTL is over.
func TestKillBeforeConfirmation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, build(t, ""), "install=1")
	relay := w.relay()
	file := w.path("pid")
	cmd := w.command("exec", "--type", "install", "--ttl", "10m", "--", "sh", "-c", "echo $$ >"+file+"; exec sleep 600")
	pid := w.child(cmd, file)
	cmd.Process.Kill()
	cmd.Wait()
	if renewals := relay.requests(leaseapi.PathRenew); len(renewals) > 0 {
		t.Skipf("the machine is so busy that the lease was confirmed before the KILL: %v", renewals)
	}
	begun := relay.requests(leaseapi.PathAcquire)[0].at
	w.await("the lease to be free", func() bool { return w.pool("install").InUse == 0 })
	if took := time.Since(begun); took > leaseapi.ProvisionalTTL+10*time.Second {
		t.Errorf("the lease was free after %v, want %v", took, leaseapi.ProvisionalTTL)
	}
	if lives(pid) {
		t.Error("the command lives on")
	}
	w.wantHeld()
}

// TERM ends exec and acquire within 3 s although the proxy answers nothing: while
// they wait for a lease, while acquire confirms it, and while exec gives it back.
func TestTermAgainstHungProxy(t *testing.T) {
	t.Parallel()
	// More than 3 s, for a busy machine, and less than two such times.
	const most = 5 * time.Second
	program := build(t, "")
	for _, tt := range []struct {
		name       string
		args       []string
		silentFrom string
		running    bool // the proxy falls silent when the command runs
	}{
		{name: "queued", args: []string{"exec"}, silentFrom: leaseapi.PathAcquire},
		{name: "queued with a handle", args: []string{"exec", "--handle", "h"}, silentFrom: leaseapi.PathAcquire},
		{name: "running", args: []string{"exec"}, running: true},
		{name: "running for a second", args: []string{"exec"}, silentFrom: leaseapi.PathRenew},
		{name: "confirming", args: []string{"acquire", "--handle", "h"}, silentFrom: leaseapi.PathRenew},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, program, "install=1")
			relay := w.relay()
			relay.silentFrom.Store(&tt.silentFrom)
			file := w.path("pid")
			args := append(tt.args, "--type", "install")
			if tt.args[0] == "exec" {
				args = append(args, "--", "sh", "-c", "echo $$ >"+file+"; exec sleep 600")
			}
			cmd := w.command(args...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if tt.running {
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
			if took := time.Since(begun); code != 128+int(syscall.SIGTERM) || took > most {
				t.Errorf("exit code %d after %v\n%s", code, took, &stderr)
			}
			relay.silent.Store(false)
			w.run(0, "recover")
			w.run(0, "release", "--handle", "h")
			w.wantHeld()
		})
	}
}
