package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// world is a proxy, with a state directory and a folder for its clients.
type world struct {
	t       *testing.T
	program string
	dir     string
	env     []string
	client  *proxyclient.Client
	log     *liveLog
}

// newWorld starts a proxy with pools such as "install=2". When the test ends, no process that it
// started in the world may be left.
func newWorld(t *testing.T, program string, pools ...string) *world {
	t.Helper()
	var args []string
	for _, p := range pools {
		args = append(args, "--pool", p)
	}
	return newWorldOf(t, program, args...)
}

// newWorldOf is newWorld with flags of serve, which name the pools.
func newWorldOf(t *testing.T, program string, serve ...string) *world {
	t.Helper()
	w := newBareWorld(t, program)
	socket := filepath.Join(w.dir, "proxy.sock")
	w.env = append(os.Environ(),
		"LEASECTL_STATE_DIR="+filepath.Join(w.dir, "state"), "LEASECTL_OWNER=job-1", "LEASE_PROXY_SERVER_URL=unix://"+socket)
	server := exec.Command(w.program, append([]string{"serve", "--socket", socket}, serve...)...)
	server.Env, server.Stderr = w.env, w.log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGINT)
		if err := server.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, w.log)
		}
		w.noneLeft()
	})
	w.client = newClient(t, "unix://"+socket)
	w.await("the proxy to listen", func() bool { return strings.Contains(w.log.String(), "listening on") })
	return w
}

// newBareWorld returns a world without a proxy, with a folder that exists until the test ends. The
// program has a path of its own, which distinguishes the world's processes from those of other
// tests.
func newBareWorld(t *testing.T, program string) *world {
	t.Helper()
	dir := shortDir(t)
	w := &world{t: t, program: filepath.Join(dir, "leasectl"), dir: dir, log: new(liveLog)}
	if err := os.Link(program, w.program); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) await(what string, so func() bool) {
	w.t.Helper()
	await(w.t, w.log, what, so)
}

// command returns leasectl with args, to run in the world's folder.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.program, args...)
	cmd.Dir, cmd.Env = w.dir, slices.Clone(w.env)
	return cmd
}

// run runs leasectl, which must end with the exit code code, and returns its standard output.
func (w *world) run(code int, args ...string) string {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if got := exitCode(cmd.Run()); got != code {
		w.t.Fatalf("leasectl %v: exit code %d, want %d\n%s%s\nproxy:\n%s", args, got, code, &stdout, &stderr, w.log)
	}
	return stdout.String()
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// pool asks the proxy for a pool.
func (w *world) pool(typ string) leaseapi.Pool {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pools, err := w.client.Pools(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range pools {
		if p.Type == typ {
			return p
		}
	}
	w.t.Fatalf("no pool %q", typ)
	return leaseapi.Pool{}
}

// owner starts a process that can be the owner of a lease. end KILLs it.
func (w *world) owner() (pid int, end func()) {
	w.t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	end = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	w.t.Cleanup(end)
	return cmd.Process.Pid, end
}

// ledger has the grants and ends of generations in the proxy's log.
type ledger struct {
	granted map[string]string // generation → name
	ended   map[string]int    // generation → how often
}

var logLine = regexp.MustCompile(`msg="?([a-z]+).* names="?\[([^\]]*)\]"? generations="?\[([^\]]*)\]`)

// ledger reads the log. A generation that ends twice, or without a grant, fails the test.
func (w *world) ledger() ledger {
	w.t.Helper()
	l := ledger{granted: make(map[string]string), ended: make(map[string]int)}
	for line := range strings.Lines(w.log.String()) {
		m := logLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		names, generations := strings.Fields(m[2]), strings.Fields(m[3])
		for i, g := range generations {
			switch m[1] {
			case "granted":
				l.granted[g] = names[i]
			case "released", "expired", "broken":
				if l.ended[g]++; l.ended[g] > 1 || l.granted[g] == "" {
					w.t.Errorf("generation %s of %s ended %d times, granted: %t", g, names[i], l.ended[g], l.granted[g] != "")
				}
			}
		}
	}
	return l
}

// held returns the names that were granted and have not ended.
func (l ledger) held() (names []string) {
	for g, name := range l.granted {
		if l.ended[g] == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// wantHeld checks that, by the log, exactly names are held. It waits a moment, since the line of a
// change may come after the answer.
func (w *world) wantHeld(names ...string) {
	w.t.Helper()
	slices.Sort(names)
	var held []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if held = w.ledger().held(); slices.Equal(held, names) {
			return
		} else if w.t.Failed() {
			break
		}
	}
	w.t.Errorf("by the log %v are held, want %v", held, names)
}

// processes returns the living processes of the world's program.
func (w *world) processes() (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if target, _ := os.Readlink(link); target == w.program {
			var pid int
			fmt.Sscanf(link, "/proc/%d/exe", &pid)
			if lives(pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// noneLeft fails the test if a process is left, and kills it.
func (w *world) noneLeft() {
	for end := time.Now().Add(patience); len(w.processes()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().Before(end) {
			continue
		}
		for _, pid := range w.processes() {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			w.t.Errorf("process %d is left behind: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
			syscall.Kill(pid, syscall.SIGKILL)
		}
		return
	}
}

// shortTTL returns the path of a configuration with a pool for tests that wait for the end of a
// TTL.
func shortTTL(t *testing.T, ttl time.Duration) string {
	path := filepath.Join(t.TempDir(), "pools.yaml")
	text := fmt.Sprintf("resources:\n- type: one\n  state: free\n  names: [one-0]\n  default_ttl: %s\n  max_ttl: %s\n", ttl, ttl)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
