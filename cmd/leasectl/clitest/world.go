package clitest

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

// World is a proxy, with a state directory and a folder for its clients.
type World struct {
	T       *testing.T
	Program string   // the path of leasectl, which no other world has
	Dir     string   // a folder with a short path, which exists until the test ends
	Env     []string // of its commands
	Client  *proxyclient.Client
	Log     *LiveLog // what the proxy says
}

// NewWorld starts a proxy with pools such as "install=2". When the test ends, no process that it
// started in the world may be left.
func NewWorld(t *testing.T, program string, pools ...string) *World {
	t.Helper()
	var args []string
	for _, p := range pools {
		args = append(args, "--pool", p)
	}
	return NewWorldOf(t, program, args...)
}

// NewWorldOf is [NewWorld] with flags of serve, which name the pools.
func NewWorldOf(t *testing.T, program string, serve ...string) *World {
	t.Helper()
	w := NewBareWorld(t, program)
	socket := filepath.Join(w.Dir, "proxy.sock")
	w.Env = append(os.Environ(),
		"LEASECTL_STATE_DIR="+filepath.Join(w.Dir, "state"), "LEASECTL_OWNER=job-1", "LEASE_PROXY_SERVER_URL=unix://"+socket)
	server := exec.Command(w.Program, append([]string{"serve", "--socket", socket}, serve...)...)
	server.Env, server.Stderr = w.Env, w.Log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGINT)
		if err := server.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, w.Log)
		}
		w.NoneLeft()
	})
	w.Client = NewClient(t, "unix://"+socket)
	w.Await("the proxy to listen", func() bool { return strings.Contains(w.Log.String(), "listening on") })
	return w
}

// NewBareWorld returns a world without a proxy, with a folder that exists until the test ends. The
// program has a path of its own, which distinguishes the world's processes from those of other
// tests.
func NewBareWorld(t *testing.T, program string) *World {
	t.Helper()
	dir := ShortDir(t)
	w := &World{T: t, Program: filepath.Join(dir, "leasectl"), Dir: dir, Log: new(LiveLog)}
	if err := os.Link(program, w.Program); err != nil {
		t.Fatal(err)
	}
	return w
}

// Await is [Await] with the log of the proxy.
func (w *World) Await(what string, so func() bool) {
	w.T.Helper()
	Await(w.T, w.Log, what, so)
}

// Command returns leasectl with args, to run in the world's folder.
func (w *World) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.Program, args...)
	cmd.Dir, cmd.Env = w.Dir, slices.Clone(w.Env)
	return cmd
}

// Run runs leasectl, which must end with the exit code code, and returns its standard output.
func (w *World) Run(code int, args ...string) string {
	w.T.Helper()
	var stdout, stderr bytes.Buffer
	cmd := w.Command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if got := ExitCode(cmd.Run()); got != code {
		w.T.Fatalf("leasectl %v: exit code %d, want %d\n%s%s\nproxy:\n%s", args, got, code, &stdout, &stderr, w.Log)
	}
	return stdout.String()
}

// Path returns the path of a file in the folder of the world.
func (w *World) Path(name string) string { return filepath.Join(w.Dir, name) }

// Pool asks the proxy for a pool.
func (w *World) Pool(typ string) leaseapi.Pool {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	pools, err := w.Client.Pools(ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, p := range pools {
		if p.Type == typ {
			return p
		}
	}
	w.T.Fatalf("no pool %q", typ)
	return leaseapi.Pool{}
}

// Owner starts a process that can be the owner of a lease. end KILLs it.
func (w *World) Owner() (pid int, end func()) {
	w.T.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	end = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	w.T.Cleanup(end)
	return cmd.Process.Pid, end
}

// Ledger has the grants and ends of generations in the proxy's log.
type Ledger struct {
	Granted map[string]string // generation → name
	ended   map[string]int    // generation → how often
}

var logLine = regexp.MustCompile(`msg="?([a-z]+).* names="?\[([^\]]*)\]"? generations="?\[([^\]]*)\]`)

// Ledger reads the log. A generation that ends twice, or without a grant, fails the test.
func (w *World) Ledger() Ledger {
	w.T.Helper()
	l := Ledger{Granted: make(map[string]string), ended: make(map[string]int)}
	for line := range strings.Lines(w.Log.String()) {
		m := logLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		names, generations := strings.Fields(m[2]), strings.Fields(m[3])
		for i, g := range generations {
			switch m[1] {
			case "granted":
				l.Granted[g] = names[i]
			case "released", "expired", "broken":
				if l.ended[g]++; l.ended[g] > 1 || l.Granted[g] == "" {
					w.T.Errorf("generation %s of %s ended %d times, granted: %t", g, names[i], l.ended[g], l.Granted[g] != "")
				}
			}
		}
	}
	return l
}

// Held returns the names that were granted and have not ended.
func (l Ledger) Held() (names []string) {
	for g, name := range l.Granted {
		if l.ended[g] == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// WantHeld checks that, by the log, exactly names are held. It waits a moment, since the line of a
// change may come after the answer.
func (w *World) WantHeld(names ...string) {
	w.T.Helper()
	slices.Sort(names)
	var held []string
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if held = w.Ledger().Held(); slices.Equal(held, names) {
			return
		} else if w.T.Failed() {
			break
		}
	}
	w.T.Errorf("by the log %v are held, want %v", held, names)
}

// Processes returns the living processes of the world's program.
func (w *World) Processes() (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if target, _ := os.Readlink(link); target == w.Program {
			var pid int
			fmt.Sscanf(link, "/proc/%d/exe", &pid)
			if Lives(pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// NoneLeft fails the test if a process is left, and kills it.
func (w *World) NoneLeft() {
	for end := time.Now().Add(Patience); len(w.Processes()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().Before(end) {
			continue
		}
		for _, pid := range w.Processes() {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			w.T.Errorf("process %d is left behind: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
			syscall.Kill(pid, syscall.SIGKILL)
		}
		return
	}
}

// ShortTTL returns the path of a configuration with a pool for tests that wait for the end of a
// TTL.
func ShortTTL(t *testing.T, ttl time.Duration) string {
	path := filepath.Join(t.TempDir(), "pools.yaml")
	text := fmt.Sprintf("resources:\n- type: one\n  state: free\n  names: [one-0]\n  default_ttl: %s\n  max_ttl: %s\n", ttl, ttl)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
