package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// keeperPID returns the pid of the keeper that a handle names.
func (w *world) keeperPID(handle string) int {
	w.T.Helper()
	h, err := lockfile.OpenHandle(handle)
	if err != nil {
		w.T.Fatal(err)
	}
	r, err := h.Read()
	if err != nil || !clitest.Lives(r.KeeperPID) {
		w.T.Fatalf("handle %s has keeper %d, which does not live (%v)", handle, r.KeeperPID, err)
	}
	return r.KeeperPID
}

// When the owner process is killed, the lease is free at once. The promise is 2 s.
func TestKeeperReleasesWhenItsOwnerIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	clitest.Promptly(t, 2*time.Second, func() time.Duration {
		owner, kill := w.Owner()
		handle := w.Path(fmt.Sprint("h", owner))
		w.Run(0, "acquire", "--type", "install", "--handle", handle, "--owner-pid", strconv.Itoa(owner))
		w.keeperPID(handle)
		begun := time.Now()
		kill()
		w.Await("the lease to be free", func() bool { return w.Pool("install").InUse == 0 })
		return time.Since(begun)
	})
}

// A keeper has no descriptor of the step above 2, and neither its pipes nor its terminal. It runs
// in a session of its own.
func TestKeeperInheritsNothing(t *testing.T) {
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	r, inherited := clitest.NewPipe(t)
	owner, kill := w.Owner()
	cmd := w.Command("acquire", "--type", "install", "--handle", "h", "--owner-pid", strconv.Itoa(owner))
	cmd.ExtraFiles = []*os.File{inherited}
	out, err := cmd.Output() // returns when no process has the pipe open
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	inherited.Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("somebody wrote %d bytes into a descriptor that nobody should have", n)
	}
	pid := w.keeperPID(w.Path("h"))
	for fd := range 3 {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if err != nil || target != os.DevNull {
			t.Errorf("descriptor %d is %q, %v: want %s", fd, target, err, os.DevNull)
		}
	}
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Errorf("session %d, %v: want its own, %d", session, err, pid)
	}
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || dir != "/" {
		t.Errorf("its directory is %q, %v: it keeps a file system busy", dir, err)
	}
	kill()
	w.Await("the lease to be free", func() bool { return w.Pool("install").InUse == 0 })
}

// A hundred keepers sleep until the next renewal. If one of their threads wakes and waits again,
// that counts as a voluntary switch.
//
// strace(1) of a keeper shows the remaining wake-ups. A renewal comes a third of the TTL after the
// one before. The runtime's poller wakes 4 or 30 s after a renewal for a timer that was stopped
// meanwhile. The runtime's monitor thread checks about once a minute whether the number of
// processors has changed. (The end of an idle connection, 30 s after each renewal, used to wake
// three threads.)
func TestKeepersWakeForRenewalsOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred processes")
	}
	t.Parallel()
	const keepers = 100
	w := newWorld(t, clitest.Build(t, ""), fmt.Sprintf("install=%d", keepers))
	owner, kill := w.Owner()
	var pids []int
	for i := range keepers {
		handle := w.Path(fmt.Sprintf("h%d", i))
		w.Run(0, "acquire", "--type", "install", "--handle", handle, "--owner-pid", strconv.Itoa(owner))
		pids = append(pids, w.keeperPID(handle))
	}
	// Keepers renew every 100 s. Each of them has a window without any of the wake-ups above,
	// however the renewals are spread: on a slow machine the acquires take minutes. A keeper that
	// polled every four seconds or more often would be woken in each of its windows.
	const window, windows = 4 * time.Second, 8
	restless := slices.Clone(pids)
	for n := 0; n < windows && len(restless) > 0; n++ {
		before := make(map[int]int)
		for _, pid := range restless {
			before[pid] = switches(t, pid)
		}
		time.Sleep(window) // the measurement
		restless = slices.DeleteFunc(restless, func(pid int) bool { return switches(t, pid) == before[pid] })
		t.Logf("%d of %d keepers were woken in each of %d windows", len(restless), keepers, n+1)
	}
	if len(restless) > 0 {
		t.Errorf("%d of %d keepers were woken in each of %d windows of %s", len(restless), keepers, windows, window)
	}
	for _, pid := range pids {
		if n := sockets(t, pid); n != 1 {
			t.Errorf("keeper %d has %d sockets, want its own only: the end of a connection wakes it", pid, n)
		}
	}
	// The next renewal comes after this test's patience, so the keeper of a released handle ends
	// only because it was told.
	w.Run(0, "release", "--handle", w.Path("h0"))
	w.Await("the keeper of a released handle to end", func() bool { return !clitest.Lives(pids[0]) })
	if !clitest.Lives(pids[1]) {
		t.Error("the keeper of another handle ended")
	}

	begun := time.Now()
	kill()
	w.Await("all leases to be free", func() bool { return w.Pool("install").InUse == 0 })
	t.Logf("all %d leases were free %v after their owner was killed", keepers, time.Since(begun))
}

// sockets counts the sockets that a process has open.
func sockets(t *testing.T, pid int) (n int) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Fatalf("process %d has no descriptors: %v", pid, err)
	}
	for _, link := range links {
		if target, _ := os.Readlink(link); strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// switches counts how often threads of a process have gone to sleep.
func switches(t *testing.T, pid int) (n int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		line, _, _ := strings.Cut(rest, "\n")
		count, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		n += count
	}
	return n
}

// If its handle is removed, and its owner acquires into the same path again, a keeper gives the
// first lease back, since nobody else can. Before, the second acquire waited for the TTL of the
// first lease, which nobody used.
func TestKeeperOfReplacedHandle(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, clitest.Build(t, ""), "--config", clitest.ShortTTL(t, 9*time.Second))
	relay := w.Relay()
	owner, _ := w.Owner()
	handle := w.Path("h")
	acquire := []string{"acquire", "--type", "one", "--handle", handle, "--wait-timeout", "1m", "--owner-pid", strconv.Itoa(owner)}
	w.Run(0, acquire...)
	keeper := w.keeperPID(handle)
	for _, suffix := range []string{"", ".json", ".lock"} {
		os.Remove(handle + suffix)
	}
	w.Run(0, acquire...)
	if releases := relay.Requests(leaseapi.PathRelease); len(releases) != 1 {
		t.Errorf("the releases are %v, want the keeper's", releases)
	}
	w.Await("the first keeper to end", func() bool { return !clitest.Lives(keeper) })
}

// A keeper whose handle is cleaned up, as with a workspace, still renews the lease for its owner,
// and gives it back when the owner ends. Before, it did neither, and the lease ended with its TTL.
func TestKeeperOutlivesItsHandle(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, clitest.Build(t, ""), "--config", clitest.ShortTTL(t, 6*time.Second))
	relay := w.Relay()
	owner, kill := w.Owner()
	dir := w.Path("workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	handle := filepath.Join(dir, "h")
	w.Run(0, "acquire", "--type", "one", "--handle", handle, "--owner-pid", strconv.Itoa(owner))
	keeper := w.keeperPID(handle)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	before := len(relay.Requests(leaseapi.PathRenew))
	w.Await("the second renewal", func() bool { return len(relay.Requests(leaseapi.PathRenew)) >= before+2 })
	kill()
	w.Await("the keeper to end", func() bool { return !clitest.Lives(keeper) })
	if releases := relay.Requests(leaseapi.PathRelease); len(releases) != 1 {
		t.Errorf("it made the releases %v, want one", releases)
	}
	w.WantHeld()
	if left, _ := filepath.Glob(w.Path("state/[^h]*/*")); len(left) > 0 { // the history stays
		t.Errorf("left behind: %v", left)
	}
}

// A keeper whose directory was removed, and made again by another keeper, goes on: nobody has dismissed
// it, and its owner works on.
func TestKeeperOutlivesItsDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=2")
	owner, kill := w.Owner()
	w.Run(0, "acquire", "--type", "install", "--handle", "h", "--owner-pid", strconv.Itoa(owner))
	keeper := w.keeperPID(w.Path("h"))
	if err := os.RemoveAll(w.Path("state")); err != nil {
		t.Fatal(err)
	}
	other, killOther := w.Owner()
	w.Run(0, "acquire", "--type", "install", "--handle", "other", "--owner-pid", strconv.Itoa(other))
	killOther()
	w.Await("the other lease to be free", func() bool { return w.Pool("install").InUse == 1 })
	if !clitest.Lives(keeper) {
		t.Error("the keeper has ended, and its owner lives")
	}
	kill()
	w.Await("the lease to be free", func() bool { return w.Pool("install").InUse == 0 })
}
