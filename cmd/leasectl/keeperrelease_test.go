package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// A keeper whose proxy has gone silent goes on trying, and does not lock the handle for long. A
// release by hand has its own time, and says that the proxy does not answer, not that another
// process has the lock. When the proxy is back, the keeper gives the lease back. Before, the keeper
// held the lock for two minutes.
func TestKeeperLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	relay, handle, keeper := w.keeperInVain()

	var stderr bytes.Buffer
	cmd := w.Command("release", "--handle", handle)
	cmd.Stderr = &stderr
	begun := time.Now()
	code := clitest.ExitCode(cmd.Run())
	took := time.Since(begun)
	if code != exitUnreachable || !strings.Contains(stderr.String(), "lease proxy does not answer") {
		t.Errorf("release: exit code %d after %v: %s", code, took, &stderr)
	}
	if took > time.Minute { // 10 s, and a slow machine
		t.Errorf("release took %v", took)
	}
	t.Logf("a release by hand took %v: %s", took, &stderr)
	if !clitest.Lives(keeper) {
		t.Fatal("the keeper has given up")
	}
	h, err := lockfile.OpenHandle(handle)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := h.Read(); err != nil || r.State != lockfile.HandleReleasing || len(r.Leases) != 1 {
		t.Errorf("the handle says %+v, %v: want what is owed", r, err)
	}

	relay.Silent.Store(false)
	w.Await("the lease to be free", func() bool { return w.Pool("install").InUse == 0 })
	w.Await("the keeper to end", func() bool { return !clitest.Lives(keeper) })
	w.Run(0, "recover")
	if left, _ := filepath.Glob(w.Path("state/[^h]*/*")); len(left) > 0 { // none stays
		t.Errorf("left behind: %v", left)
	}
	if clitest.Exists(handle + ".json") {
		t.Error("the handle is still there")
	}
	w.WantHeld()
}

// keeperInVain starts a keeper that tries to give its lease back to a proxy that has gone silent.
func (w *world) keeperInVain() (r *clitest.Relay, handle string, keeper int) {
	w.T.Helper()
	r = w.Relay()
	owner, kill := w.Owner()
	handle = w.Path("h")
	w.Run(0, "acquire", "--type", "install", "--handle", handle, "--owner-pid", strconv.Itoa(owner))
	keeper = w.keeperPID(handle)
	r.Silent.Store(true)
	kill()
	h, err := lockfile.OpenHandle(handle)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Await("the keeper to try", func() bool { // a request that the relay took may be a renewal
		record, err := h.Read()
		return r.Taken.Load() > 0 && err == nil && record.State == lockfile.HandleReleasing
	})
	return r, handle, keeper
}

// A keeper that is asked to end while its proxy is silent ends within seconds, and leaves the
// leases that it owes to recover.
func TestKeeperIsEndedWhileItReleases(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	clitest.Promptly(t, 5*time.Second, func() time.Duration { // 3 s, and a slow machine
		w := newWorld(t, program, "install=1")
		relay, _, keeper := w.keeperInVain()
		process, err := os.FindProcess(keeper)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		process.Signal(os.Interrupt)
		w.Await("the keeper to end", func() bool { return !clitest.Lives(keeper) })
		took := time.Since(begun)
		relay.Silent.Store(false)
		if out := w.Run(0, "recover"); !strings.HasPrefix(out, "released install-0: release ") {
			t.Errorf("recover: %q", out)
		}
		w.WantHeld()
		return took
	})
}

// If the release of a keeper at a version-1 proxy gets no answer, no process sends it again: it may
// have arrived, and a second one would end another job's lease.
func TestKeeperAloneReleasesFromVersionOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	var tries atomic.Int32
	proxy, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case leaseapi.PathAcquire:
			out.Header().Set("Content-Type", "application/json")
			io.WriteString(out, `{"names":["a"]}`)
		case leaseapi.PathRelease:
			tries.Add(1)
			<-req.Context().Done() // it may have arrived, or not
		default:
			http.NotFound(out, req)
		}
	}))
	owner, kill := w.Owner()
	handle := w.Path("h")
	w.Run(0, "acquire", "--proxy", proxy, "--type", "install", "--handle", handle, "--owner-pid", strconv.Itoa(owner))
	keeper := w.keeperPID(handle)
	kill()
	w.Await("the keeper to try", func() bool { return tries.Load() == 1 })
	for _, command := range [][]string{
		{"release", "--handle", handle},
		{"reacquire", "--proxy", proxy, "--type", "install", "--handle", handle},
		{"release", "--proxy", proxy, "--names", "a"},
	} {
		var stderr bytes.Buffer
		cmd := w.Command(command...)
		cmd.Stderr = &stderr
		if code := clitest.ExitCode(cmd.Run()); code != exitFailure || !strings.Contains(stderr.String(), "is not sent again") {
			t.Errorf("%s: exit code %d: %s", command[0], code, &stderr)
		}
	}
	w.Await("the keeper to end", func() bool { return !clitest.Lives(keeper) })
	if n := tries.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
	out := w.Run(1, "recover")
	if !strings.HasPrefix(out, "unconfirmed: a may still be held behind "+proxy) || strings.Count(out, "\n") != 1 {
		t.Errorf("recover: %q", out)
	}
	w.Run(0, "recover", "--forget", "a")
	w.Run(0, "release", "--handle", handle)
	if clitest.Exists(handle + ".json") {
		t.Error("the handle is still there")
	}
}
