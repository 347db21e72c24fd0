package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// failedReleases are proxies that give nothing back, each with the exit code of a release there.
var failedReleases = []struct {
	name string
	h    http.HandlerFunc
	code int
}{
	{"dead", gone, exitUnreachable},
	{"redirect", answering(302, "", "Location", "https://login.test/"), exitFailure},
	{"bad request", answering(400, "no"), exitFailure},
	{"not found", answering(404, "no such page"), exitFailure},
	{"error", answering(500, "no store"), exitFailure},
	{"busy", answering(503, "busy"), exitFailure},
}

// A failed release leaves the names file. Scripts that glob for handles, test for one or print one
// still find it, and a release of it gives the lease back. Before, the names file was gone, and
// nobody released the lease again.
func TestFailedReleaseLeavesTheNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=20")
	var all sync.WaitGroup
	for _, tt := range failedReleases {
		for _, command := range []string{"release", "reacquire"} {
			if command == "reacquire" && tt.name == "not found" {
				continue // the other proxy may be of version 1, so the lease's own proxy is asked
			}
			all.Go(func() {
				address, closing := w.Listen(tt.h)
				if tt.name == "dead" {
					closing()
				}
				dir := w.Path(strings.ReplaceAll(tt.name, " ", "-") + "-" + command)
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Error(err)
					return
				}
				handle := filepath.Join(dir, "install.handle")
				// An acquire of another case must not settle the leftovers of this one.
				leasectl := func(args ...string) *exec.Cmd {
					cmd := w.Command(args...)
					cmd.Env = append(cmd.Env, "LEASECTL_STATE_DIR="+dir+"-state")
					return cmd
				}
				if out, err := leasectl("acquire", "--type", "install", "--count", "1", "--handle", handle).Output(); err != nil {
					t.Errorf("acquire: %v: %s", err, out)
					return
				}
				names, err := os.ReadFile(handle)
				if err != nil {
					t.Error(err)
					return
				}
				args := []string{command, "--handle", handle, "--proxy", address}
				if got := clitest.ExitCode(leasectl(args...).Run()); got != tt.code {
					t.Errorf("%s, %s: exit code %d, want %d", tt.name, command, got, tt.code)
				}
				found, _ := filepath.Glob(filepath.Join(dir, "*.handle"))
				if len(found) != 1 {
					t.Errorf("%s, %s: after a failed release the handles are %v", tt.name, command, found)
				}
				if cat, err := leasectl("cat", "--handle", handle).Output(); err != nil || string(cat) != string(names) {
					t.Errorf("%s, %s: cat: %q, %v, want %q", tt.name, command, cat, err, names)
				}
				if out, err := leasectl("release", "--handle", handle).Output(); err != nil || string(out) != string(names) {
					t.Errorf("%s, %s: released again: %q, %v, want %q", tt.name, command, out, err, names)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
					t.Errorf("%s, %s: left behind: %v", tt.name, command, left)
				}
			})
		}
	}
	all.Wait()
	w.WantHeld()
}

// Recover asks a proxy that answers only with errors once, like a proxy that does not answer.
// Before, each journal entry took ten seconds.
func TestRecoverFromProxyOfErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=2")
	w.killTwo()
	var mu sync.Mutex
	releases := make(map[string]bool)
	proxy, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		releases[string(body)] = true
		mu.Unlock()
		http.Error(out, "no store", http.StatusInternalServerError)
	}))
	var stderr bytes.Buffer
	cmd := w.Command("recover", "--proxy", proxy)
	cmd.Stderr = &stderr
	code := clitest.ExitCode(cmd.Run())
	mu.Lock()
	asked := len(releases)
	mu.Unlock()
	if code != exitFailure || asked != 1 {
		t.Errorf("exit code %d, asked for %d releases, want one:\n%s", code, asked, &stderr)
	}
	if said := regexp.MustCompile(`exec .* was killed: .*no store`).FindAllString(stderr.String(), -1); len(said) != 2 {
		t.Errorf("it is said of %d entries, want of both:\n%s", len(said), &stderr)
	}
	w.Run(0, "recover")
	w.WantHeld()
}

// A signal that ends recover does not hide what recover has found until then.
func TestInterruptedRecover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=2")
	w.killTwo()
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	proxy, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		http.Error(out, "no store", http.StatusInternalServerError)
		once()
	}))
	var stderr bytes.Buffer
	cmd := w.Command("recover", "--proxy", proxy)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	cmd.Process.Signal(syscall.SIGTERM)
	if code := clitest.ExitCode(cmd.Wait()); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	want := regexp.MustCompile(`^leasectl: exec .* was killed: release install-0: .*no store.*\nleasectl: ended by signal: terminated\n$`)
	if !want.Match(stderr.Bytes()) {
		t.Errorf("want %s, said:\n%s", want, &stderr)
	}
	w.Run(0, "recover")
	w.WantHeld()
}

// killTwo leaves two leases of killed execs.
func (w *world) killTwo() {
	w.T.Helper()
	var killed []*exec.Cmd
	for _, up := range []string{"one", "two"} {
		cmd := w.Command("exec", "--type", "install", "--parent-death", "KILL", "--", "sh", "-c", "touch '"+up+"'; exec sleep 1000")
		if err := cmd.Start(); err != nil {
			w.T.Fatal(err)
		}
		w.Await("the lease to be held", func() bool { return clitest.Exists(w.Path(up)) })
		killed = append(killed, cmd)
	}
	for _, cmd := range killed {
		cmd.Process.Kill()
		cmd.Wait()
	}
}
