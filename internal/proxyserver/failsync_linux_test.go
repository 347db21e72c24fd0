package proxyserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/leaseapi"
)

func init() { breakSyncOnSignal = breakSync }

// breakSync makes every fdatasync(2) of this process fail with EIO from the next SIGUSR1 on,
// as on a disk that is about to die. It says on stdout when that is so.
func breakSync() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		<-signals
		if err := failSyscall(unix.SYS_FDATASYNC, unix.EIO); err != nil {
			fmt.Println("not possible:", err)
			return
		}
		fmt.Println("broken")
	}()
}

// failSyscall installs a filter for all threads (seccomp(2)).
func failSyscall(number uint32, with unix.Errno) error {
	const nrOffset = 0 // offset of nr in struct seccomp_data
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nrOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(with)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	runtime.LockOSThread() // both calls; the second then takes all threads along
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errno
	}
	return nil
}

// When the store cannot be synced the server stops granting and says so. Everything that it
// had acknowledged is there after a restart.
func TestSyncFails(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	client := overSocket(socket)
	defer client.CloseIdleConnections()
	said, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	server := startChildWith(t, socket, dir, out, childSync+"=1")
	out.Close()
	first, err := insist(t.Context(), client, "POST", "/lease/acquire?type=q&request_id=first&owner=kept", "")
	if err != nil || first.status != 200 {
		t.Fatalf("%d %s, %v", first.status, first.body, err)
	}
	var grant leaseapi.AcquireReply
	if err := json.Unmarshal([]byte(first.body), &grant); err != nil {
		t.Fatal(err)
	}
	if err := server.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 100)
	said.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := said.Read(word)
	if err != nil || !strings.HasPrefix(string(word[:n]), "broken") {
		server.kill()
		// TestSyncFailsAfterWrites shows the same then, except for the process
		t.Skipf("this system has no seccomp filters for us: %q, %v", word[:n], err)
	}
	release := withLeases(grant.Leases[0])
	for _, c := range []struct{ method, target, body string }{
		{"POST", "/lease/acquire?type=q&request_id=second", ""}, // its commit fails
		{"POST", "/lease/acquire?type=q&request_id=third", ""},
		{"POST", "/lease/release", release},
		{"GET", "/readyz", ""},
		{"GET", "/healthz", ""},
	} {
		// A call may find that the server is gone already: it saves its clock, too.
		r, err := once(t.Context(), client, c.method, c.target, c.body)
		if err == nil && (r.status != 503 || !strings.Contains(r.body, leaseapi.ProblemUnavailable)) {
			t.Errorf("%s: %d %s, %v", c.target, r.status, r.body, err)
		}
	}
	if err := server.cmd.Wait(); err == nil || server.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the server ended with %v", err)
	}

	server = startChild(t, socket, dir)
	defer server.kill()
	again, err := insist(t.Context(), client, "POST", "/lease/acquire?type=q&request_id=first&owner=kept", "")
	var same leaseapi.AcquireReply
	if json.Unmarshal([]byte(again.body), &same); err != nil || len(same.Leases) != 1 || same.Leases[0] != grant.Leases[0] {
		t.Errorf("had %+v, and has %d %s, %v", grant.Leases, again.status, again.body, err)
	}
}

// The same in one process and without a filter, which some systems refuse. Here only a sync
// fails: the file takes every write.
func TestSyncFailsAfterWrites(t *testing.T) {
	dir := t.TempDir()
	p := start(t, durable(t, dir, 2))
	kept := p.granted("type=q&request_id=kept&owner=me&count=2").Leases
	waits := p.later(t.Context(), "type=q&request_id=w")
	p.waitingFor(1)
	loseSyncs(t, filepath.Join(dir, bolt.File))
	release := withLeases(kept[0])
	for _, c := range []struct{ method, target, body string }{
		{"POST", "/lease/release", release}, // its commit fails
		{"POST", "/lease/release", release},
		{"POST", "/lease/acquire?type=q&request_id=second", ""},
		{"GET", "/pools", ""},
		{"GET", "/readyz", ""},
	} {
		if pr := decode[leaseapi.Problem](t, p.local(c.method, c.target, c.body), 503); pr.Type != leaseapi.ProblemUnavailable {
			t.Errorf("%s: %+v", c.target, pr)
		}
	}
	if r := <-waits; r.status != 503 { // the release that would have served the waiter is not durable
		t.Errorf("the waiter got %d %s", r.status, r.body)
	}
	if text := p.local("GET", "/metrics", "").body; !strings.Contains(text, "leasectl_commit_errors_total 1\n") {
		t.Error("the commit that failed is not counted")
	}
	if err := p.stop(); !errors.Is(err, ErrStore) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("Serve: %v, want the error of the sync", err)
	}

	p = start(t, durable(t, dir, 2))
	if again := p.granted("type=q&request_id=kept&owner=me&count=2").Leases; !slices.Equal(again, kept) {
		t.Errorf("had %+v, and has %+v", kept, again)
	}
}

// loseSyncs makes this process's descriptor of a file one of null(4), which takes
// every write and fails every sync with EINVAL.
func loseSyncs(t *testing.T, path string) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range open {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err != nil || target != path {
			continue // it may be closed already
		}
		fd, err := strconv.Atoi(e.Name())
		if err == nil {
			err = unix.Dup3(int(null.Fd()), fd, unix.O_CLOEXEC)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no descriptor of %s", path)
}
