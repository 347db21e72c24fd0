package main

import (
	"bytes"
	"context"
	"errors"
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

// built is where build puts what it compiles, until the tests end.
var built struct {
	sync.Mutex
	dir string
}

// build compiles leasectl as users have it, without the race detector: tests
// with hundreds of processes would wait for that alone. It does so once for all tests.
func build(t *testing.T, tags string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "leasectl-built-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	program := filepath.Join(built.dir, "leasectl"+tags)
	if exists(program) {
		return program
	}
	cmd := exec.Command("go", "build", "-tags", tags, "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// world is a proxy, and a state directory and folder for those who use it.
type world struct {
	t       *testing.T
	program string
	dir     string
	env     []string
	client  *proxyclient.Client
	log     *liveLog
}

// liveLog is what a process has written so far. That of a proxy is the only witness
// of what was granted and what ended.
type liveLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *liveLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *liveLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// shortDir is a folder until the test ends, whose path leaves room for that of a
// socket in it, which may have 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "leasectl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// newClient is a client of a proxy, until the test ends.
func newClient(t *testing.T, proxy string) *proxyclient.Client {
	t.Helper()
	client, err := proxyclient.New(proxyclient.Options{URL: proxy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// newPipe is a pipe whose ends are closed when the test ends, if not before.
func newPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// newWorld starts a proxy with pools such as "install=2". Nothing that a test
// started in it may be left when the test ends.
func newWorld(t *testing.T, program string, pools ...string) *world {
	t.Helper()
	var args []string
	for _, p := range pools {
		args = append(args, "--pool", p)
	}
	return newWorldOf(t, program, args...)
}

// newWorldOf is newWorld with flags of serve that say which pools there are.
func newWorldOf(t *testing.T, program string, serve ...string) *world {
	t.Helper()
	dir := shortDir(t)
	socket := filepath.Join(dir, "proxy.sock")
	w := &world{t: t, program: filepath.Join(dir, "leasectl"), dir: dir, log: new(liveLog)}
	// Under a name of its own, by which to know the world's processes from those
	// of other tests.
	if err := os.Link(program, w.program); err != nil {
		t.Fatal(err)
	}
	w.env = append(os.Environ(),
		"LEASECTL_STATE_DIR="+filepath.Join(dir, "state"), "LEASECTL_OWNER=job-1", "LEASE_PROXY_SERVER_URL=unix://"+socket)
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

// await blocks until something is so. Where it never is, the log may say why.
func await(t *testing.T, log fmt.Stringer, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s\n%s", what, log)
		}
	}
}

func (w *world) await(what string, so func() bool) {
	w.t.Helper()
	await(w.t, w.log, what, so)
}

// command is leasectl with args, in the world's folder.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.program, args...)
	cmd.Dir, cmd.Env = w.dir, slices.Clone(w.env)
	return cmd
}

// run runs leasectl, which must end with that exit code, and returns its
// standard output.
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

// promptly runs f, which returns for how long something took, up to three times. A
// slow machine may be late once; what is wrong is late each time.
func promptly(t *testing.T, most time.Duration, f func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 3 {
		took = append(took, f())
		if took[len(took)-1] <= most || t.Failed() {
			return
		}
	}
	t.Errorf("it took %v, want %v at most", took, most)
}

// exitCode is the code that a process ended with, by the error of its Run or Wait: -1
// if a signal ended it, -2 if it was not started or its output failed.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -2
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// pool looks a pool up at the proxy.
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

// owner starts a process for a lease to be for. It is KILLed when end is called.
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

// ledger is what the proxy's log says of generations.
type ledger struct {
	granted map[string]string // generation → name
	ended   map[string]int    // generation → how often
}

var logLine = regexp.MustCompile(`msg="?([a-z]+).* names="?\[([^\]]*)\]"? generations="?\[([^\]]*)\]`)

// ledger reads the log. A generation that ends twice, or without a grant, is an
// error here and now.
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

// held are the names that were granted and have not ended.
func (l ledger) held() (names []string) {
	for g, name := range l.granted {
		if l.ended[g] == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// wantHeld checks that, by the log, names are held and nothing else. The line of
// a change may come a moment after its answer.
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

// lives tells whether a process is there and no zombie. One of several threads is
// a zombie before the last of them has closed its files: then it still lives.
func lives(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !bytes.Contains(status, []byte("State:\tZ")) && !bytes.Contains(status, []byte("State:\tX")) {
		return err == nil
	}
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(threads) > 1
}

// processes are those of the world's program that live.
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

// noneLeft fails the test if a process is left behind, which it kills.
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
