package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

// watching is a running status --watch.
type watching struct {
	w              *world
	cmd            *exec.Cmd
	stdout, stderr string // paths of the files that it writes
}

func (w *world) watch(name string, args ...string) *watching {
	w.T.Helper()
	x := &watching{w: w, cmd: w.Command(append([]string{"status", "--watch"}, args...)...), stdout: w.Path(name), stderr: w.Path(name + ".err")}
	for path, stream := range map[string]*io.Writer{x.stdout: &x.cmd.Stdout, x.stderr: &x.cmd.Stderr} {
		f, err := os.Create(path)
		if err != nil {
			w.T.Fatal(err)
		}
		w.T.Cleanup(func() { f.Close() })
		*stream = f
	}
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // on a terminal an INT is a key, and has no exit code
	if err := x.cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { x.cmd.Process.Kill() })
	return x
}

func (x *watching) text() string {
	text, err := os.ReadFile(x.stdout)
	if err != nil {
		x.w.T.Fatal(err)
	}
	return string(text)
}

func (x *watching) awaitText(says string) {
	x.w.T.Helper()
	x.w.Await(says, func() bool { return strings.Contains(x.text(), says) })
}

// ends sends a signal, and checks the exit code and that no message is printed.
func (x *watching) ends(sig syscall.Signal, code int) {
	x.w.T.Helper()
	x.cmd.Process.Signal(sig)
	if got := clitest.ExitCode(x.cmd.Wait()); got != code {
		x.w.T.Errorf("after %v: exit code %d, want %d", sig, got, code)
	}
	if said, _ := os.ReadFile(x.stderr); len(said) > 0 {
		x.w.T.Errorf("after %v: stderr %q", sig, said)
	}
}

// status --watch prints a line or a JSON object for each change of the pool until it is
// interrupted.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1", "other=1")
	text := w.watch("text", "--type", "install")
	objects := w.watch("objects", "--type", "install", "--output", "json")
	text.awaitText("install: is a pool (0 of 1 in use, 0 waiting)\n")
	objects.awaitText("is a pool")

	w.Run(0, "acquire", "--type", "install", "--handle", "h", "--owner", "job-7")
	w.Run(0, "acquire", "--type", "other", "--handle", "o")
	text.awaitText("install: install-0 is held by job-7 (1 of 1 in use, 0 waiting)\n")
	objects.awaitText("install-0 is held by job-7") // each watch polls at its own times
	waiter := w.Command("acquire", "--type", "install", "--owner", "job-8")
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	text.awaitText("install: job-8 waits for 1 at place 1: full (1 of 1 in use, 1 waiting)\n")
	objects.awaitText("job-8 waits for 1 at place 1")
	waiter.Process.Signal(syscall.SIGINT)
	waiter.Wait()
	text.awaitText("install: job-8 waits no more, after ")
	w.Run(0, "release", "--handle", "h", "--delay", "1h", "--detach")
	text.awaitText("install: install-0 of job-7 is to be released in ")
	w.Run(0, "release", "--handle", "h")
	text.awaitText("install: install-0 of job-7 has ended, held for ")
	objects.awaitText("has ended")
	w.Run(0, "pause", "install", "--reason", "the account is throttled")
	text.awaitText("install: is paused: the account is throttled (0 of 1 in use, 0 waiting)\n")
	w.Run(0, "resume", "install")
	text.awaitText("install: is resumed (0 of 1 in use, 0 waiting)\n")
	text.ends(syscall.SIGINT, 130)
	objects.ends(syscall.SIGTERM, 143)

	if strings.Contains(text.text(), "other") || strings.Contains(objects.text(), "other") {
		t.Errorf("another pool than was asked for: %s%s", text.text(), objects.text())
	}
	decoder, seen := json.NewDecoder(strings.NewReader(objects.text())), 0
	for decoder.More() {
		var object struct {
			Changes []string
			Pool    leaseapi.Pool
		}
		if err := decoder.Decode(&object); err != nil {
			t.Fatal(err)
		}
		seen++
		if object.Pool.Type != "install" || len(object.Changes) == 0 {
			t.Errorf("object %+v", object)
		}
	}
	if lines := strings.Count(objects.text(), "\n"); seen < 4 || lines != seen {
		t.Errorf("%d objects on %d lines: %s", seen, lines, objects.text())
	}
}

// A watch shows all that status shows: also the shared leases of this machine, and which server
// leads. It showed the pools only.
func TestStatusWatchOfSharedLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1", "other=1")
	text := w.watch("text")
	objects := w.watch("objects", "--output", "json")
	other := w.watch("other", "--type", "other")
	text.awaitText("is a pool")
	objects.awaitText("is a pool")
	other.awaitText("is a pool")

	use := func() *exec.Cmd {
		cmd := w.Command("exec", "--type", "install", "--shared", "N", "--", "sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM) }) // if the test fails
		return cmd
	}
	first := use()
	text.awaitText(" is held as install-0 (install, uses 1, users 1)\n")
	objects.awaitText("is held as install-0")
	second := use()
	text.awaitText(" users 2, before 1 (install, uses 2, users 2)\n")
	terminal := w.onTerminal(w.Program, "status", "--watch")
	terminal.awaits("SHARED HERE AS")
	terminal.interrupt()
	for _, cmd := range []*exec.Cmd{first, second} {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}
	text.awaitText(" has ended (install, ")
	objects.awaitText("\"has ended\"")
	for _, x := range []*watching{text, objects, other} {
		x.ends(syscall.SIGINT, 130)
	}
	if !strings.Contains(text.text(), " shared N: round ") || strings.Contains(other.text(), "shared") {
		t.Errorf("%s\n%s", text.text(), other.text())
	}
	var last struct{ Shared *struct{ Name, Type string } }
	lines := strings.Split(strings.TrimSpace(objects.text()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Shared == nil || last.Shared.Name != "N" {
		t.Errorf("%v: %s", err, objects.text())
	}
}

func TestStatusWatchOfTheLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	var leader atomic.Pointer[leaseapi.Leader]
	leader.Store(&leaseapi.Leader{URL: "http://a", Since: time.Unix(1e9, 0), Standby: 1})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		json.NewEncoder(rw).Encode(leaseapi.PoolsReply{Pools: []leaseapi.Pool{}, Leader: leader.Load()})
	}))
	defer server.Close()
	w.Env = append(w.Env, proxyVariable+"="+server.URL)
	text := w.watch("text")
	objects := w.watch("objects", "--output", "json")
	text.awaitText(" leader: http://a leads (1 standing by)\n")
	objects.awaitText(`"leader":{"url":"http://a"`)
	terminal := w.onTerminal(w.Program, "status", "--watch")
	terminal.awaits("led by http://a for ")
	terminal.interrupt()
	leader.Store(&leaseapi.Leader{URL: "http://a", Since: time.Unix(1e9, 0), Standby: 2})
	text.awaitText(" leader: http://a has 2 standing by, before 1 (2 standing by)\n")
	leader.Store(&leaseapi.Leader{URL: "http://b", Since: time.Unix(2e9, 0), Standby: 2})
	text.awaitText(" leader: http://b leads (2 standing by)\n")
	text.ends(syscall.SIGINT, 130)
	objects.ends(syscall.SIGINT, 130)
}

// A proxy that never answers ends the watch. If a proxy fails after its first answer, the watch
// says so once, and waits for it.
func TestStatusWatchTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	relay := w.Relay()
	x := w.watch("text")
	x.awaitText("is a pool")
	relay.Silent.Store(true)
	said := func() string {
		text, _ := os.ReadFile(x.stderr)
		return string(text)
	}
	w.Await("the failure to be said", func() bool { return strings.Contains(said(), "; trying since ") })
	relay.Silent.Store(false)
	w.Run(0, "acquire", "--type", "install", "--handle", "h")
	x.awaitText("install-0 is held by job-1")
	w.Await("the end of it to be said", func() bool { return strings.Contains(said(), "answers again") })
	if n := strings.Count(said(), "trying since"); n != 1 {
		t.Errorf("said %d times: %s", n, said())
	}
	x.cmd.Process.Signal(syscall.SIGINT)
	x.cmd.Wait()

	relay.Close()
	var stderr bytes.Buffer
	cmd := w.Command("status", "--watch")
	cmd.Stderr = &stderr
	if code := clitest.ExitCode(cmd.Run()); code != exitUnreachable {
		t.Errorf("exit code %d without a proxy: %s", code, &stderr)
	}
}

// If a pool stops being counted, the watch does not report that its leases became smaller.
func TestUnitsOfAPoolThatIsCountedNoMore(t *testing.T) {
	lease := func(units int) leaseapi.Pool {
		return leaseapi.Pool{Type: "mem", Capacity: 9, Leases: []leaseapi.PoolLease{{Lease: leaseapi.Lease{Name: "mem-1", Generation: 1, Units: units}, Owner: "job"}}}
	}
	if lines := poolChanges(lease(1), lease(0)); len(lines) > 0 {
		t.Errorf("%q", lines)
	}
	if lines := poolChanges(lease(3), lease(1)); len(lines) != 1 || lines[0] != "mem-1 of job holds 1 units, before 3" {
		t.Errorf("%q", lines)
	}
}

// A watch of one pool reports that the pool is removed, and when it is back. It said that the
// proxy failed.
func TestStatusWatchOfARemovedPool(t *testing.T) {
	t.Parallel()
	config := filepath.Join(clitest.ShortDir(t), "pools.yaml")
	configure := func(types ...string) {
		text := "resources:\n"
		for _, typ := range types {
			text += "  - {type: " + typ + ", state: free, names: [" + typ + "-0]}\n"
		}
		for _, err := range []error{os.WriteFile(config+".new", []byte(text), 0o600), os.Rename(config+".new", config)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	configure("install", "other")
	w := newWorldOf(t, clitest.Build(t, ""), "--config", config)
	x := w.watch("text", "--type", "install")
	x.awaitText("install: is a pool (0 of 1 in use, 0 waiting)\n")
	configure("other")
	x.awaitText("install: is no pool any more (0 of 0 in use, 0 waiting)\n")
	configure("install", "other")
	w.Await("the pool to be one again", func() bool { return strings.Count(x.text(), "install: is a pool (") == 2 })
	x.ends(syscall.SIGINT, 130)
	if n := strings.Count(x.text(), "\n"); n != 3 {
		t.Errorf("%d lines: %s", n, x.text())
	}
}

// The watch reports all that happened to a lease between two polls, also to one that it did not
// see before. It reported only the first change, and the others never.
func TestChangesOfOneLeaseWithinAPoll(t *testing.T) {
	before := leaseapi.PoolLease{Lease: leaseapi.Lease{Name: "mem-1", Generation: 1, Units: 2}, Owner: "job"}
	after := before
	after.Units, after.Broken, after.ReleaseAt, after.ExpiresIn = 3, "stuck", time.Now(), leaseapi.Duration(20*time.Minute)
	pool := func(leases ...leaseapi.PoolLease) leaseapi.Pool {
		return leaseapi.Pool{Type: "mem", Capacity: 9, Leases: leases}
	}
	ends := []string{"mem-1 of job is broken: stuck", "mem-1 of job is to be released in 20m"}
	for _, c := range []struct {
		old, first string
		before     leaseapi.Pool
	}{
		{"a lease that was seen", "mem-1 of job holds 3 units, before 2", pool(before)},
		{"no lease", "mem-1 is held by job, 3 units", pool()},
	} {
		if got, want := poolChanges(c.before, pool(after)), append([]string{c.first}, ends...); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.old, got, want)
		}
	}
	if got := poolChanges(pool(after), pool(after)); len(got) > 0 {
		t.Errorf("no change: %q", got)
	}
}

// The watch tells of what status shows of a pool beside its leases and its queue: the limit, a lock
// delay, and names that are to go.
func TestChangesOfAPool(t *testing.T) {
	lease := leaseapi.PoolLease{Lease: leaseapi.Lease{Name: "q-1", Generation: 1}, Owner: "job"}
	drains := lease
	drains.Draining = true
	for _, tt := range []struct {
		old, new leaseapi.Pool
		want     []string
	}{
		{leaseapi.Pool{Capacity: 9, Limit: 9}, leaseapi.Pool{Capacity: 8, Limit: 8}, []string{"capacity 8, before 9"}},
		{leaseapi.Pool{Capacity: 9}, leaseapi.Pool{Capacity: 9, Limit: 8}, []string{"limit 8, before 9"}},
		{
			leaseapi.Pool{Capacity: 9, Limit: 8, Adapt: true},
			leaseapi.Pool{Capacity: 9, Limit: 7, Adapt: true, Moved: &leaseapi.LimitMove{From: 8, To: 7, Owner: "job", Detail: "429"}},
			[]string{"limit 7, before 8: report of job: 429"},
		},
		{leaseapi.Pool{Capacity: 9}, leaseapi.Pool{Capacity: 9, LockDelayed: 2}, []string{"2 with a lock delay, before 0"}},
		{leaseapi.Pool{Leases: []leaseapi.PoolLease{lease}}, leaseapi.Pool{Leases: []leaseapi.PoolLease{drains}}, []string{"q-1 of job is draining"}},
	} {
		if got := poolChanges(tt.old, tt.new); !slices.Equal(got, tt.want) {
			t.Errorf("%+v to %+v: %q, want %q", tt.old, tt.new, got, tt.want)
		}
	}
}
