package campaign

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// A disk is full here for some processes only, by a limit of the size of their files, which needs
// no right. It is a soft limit: unlimited lifts it, in scripts of a command that had it.

const (
	noRoom    = "file too large" // EFBIG; a disk that is full says ENOSPC
	unlimited = "ulimit -S -f unlimited; "
)

// limitFiles limits the files of processes to size bytes.
func (w *world) limitFiles(size uint64, pids ...int) {
	w.T.Helper()
	for _, pid := range pids {
		var limit unix.Rlimit
		err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit)
		if limit.Cur = min(size, limit.Max); err == nil {
			err = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil)
		}
		if err != nil {
			w.T.Fatal(err)
		}
	}
}

// diskUser is a command that was started, and what it says.
type diskUser struct {
	*exec.Cmd
	w      *world
	stderr bytes.Buffer
}

func (w *world) startDiskUser(args ...string) *diskUser {
	w.T.Helper()
	u := &diskUser{Cmd: w.Command(args...), w: w}
	u.Stderr = &u.stderr
	if err := u.Start(); err != nil {
		w.T.Fatal(err)
	}
	return u
}

// fullFor starts a command for which the disk is full from its beginning.
func (w *world) fullFor(args ...string) *diskUser {
	w.T.Helper()
	u := &diskUser{Cmd: exec.Command("sh", append([]string{"-c", `ulimit -S -f 0; exec "$@"`, "sh", w.Program}, args...)...), w: w}
	u.Dir, u.Env, u.Stderr = w.Dir, slices.Clone(w.Env), &u.stderr
	if err := u.Start(); err != nil {
		w.T.Fatal(err)
	}
	return u
}

// end waits for the end of the command, which is killed if it does not end, and returns its exit code.
func (u *diskUser) end() (code int) {
	defer time.AfterFunc(clitest.Patience, func() { u.Process.Kill() }).Stop()
	return clitest.ExitCode(u.Wait())
}

// wants waits for the end of the command, and checks its exit code and that it says texts.
func (u *diskUser) wants(code int, texts ...string) {
	u.w.T.Helper()
	if got := u.end(); got != code {
		u.w.T.Errorf("exit code %d, want %d\n%s", got, code, &u.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(u.stderr.String(), text) {
			u.w.T.Errorf("it does not say %q:\n%s", text, &u.stderr)
		}
	}
}

// A service that waits for the file go before it announces itself, and for the file end.
const slowService = unlimited + `echo $$ >>pids; until test -e go; do sleep 0.01; done; echo RUNS_AS=$$; until test -e end; do sleep 0.01; done; exit 3`

func (w *world) touch(name string) {
	w.T.Helper()
	if err := os.WriteFile(w.Path(name), nil, 0o600); err != nil {
		w.T.Fatal(err)
	}
}

// mayNotRun checks that no command has run.
func (w *world) mayNotRun() {
	w.T.Helper()
	if clitest.Exists(w.Path("ran")) {
		w.T.Error("a command ran")
	}
}

// TestServiceFullDisk has the disk of the state directory full at each step of a shared lease with
// a service. After that no service is left, the lease ends within its TTL, no command runs that
// could not join its round, and the message says that the disk is full.
func TestServiceFullDisk(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	runServiceTests(t, program, []serviceTest{
		{"from the beginning", fullFromBeginning},
		{"while the service starts", fullWhileStarting},
		{"for a moment while the service starts", fullForMoment},
		{"for a newcomer", fullForNewcomer},
		{"when the last user leaves", fullWhenLeaving},
		{"when the service ends", fullWhenServiceEnds},
		{"when the keeper is killed", fullWhenKeeperKilled},
		{"for the log", fullLog},
	})
	t.Run("until the lease has ended", func(t *testing.T) {
		t.Parallel()
		w := newWorldOf(t, program, "--config", clitest.ShortTTL(t, 6*time.Second))
		fullUntilLost(t, w)
		w.endServices()
	})
}

func fullFromBeginning(t *testing.T, w *world) {
	w.fullFor(serviceUser(unlimited+stubborn, unlimited+"true")...).wants(exitExecFailure, noRoom)
	if len(w.services()) > 0 {
		t.Error("a service was started")
	}
	w.mayNotRun()
}

// The keeper cannot say that its service is ready. It stops the service, and the user, which
// notices that, gives the lease back at once.
func fullWhileStarting(t *testing.T, w *world) {
	user := w.startDiskUser(serviceUser(slowService, unlimited+"true")...)
	w.Await("the service to start", func() bool { return len(w.services()) > 0 })
	w.limitFiles(0, w.serviceKeeper(), user.Process.Pid)
	w.touch("go")
	user.wants(exitExecFailure, noRoom, "its keeper could not write the record of the round")
	if w.one == nil {
		deadBeforeRelease(t, w) // one of version 1 is settled later
	}
	w.mayNotRun()
}

// The keeper says that its service is ready as soon as there is room again. A machine that stops the
// test for longer than the keeper tries is asked again.
func fullForMoment(t *testing.T, w *world) {
	for range 5 {
		os.Remove(w.Path("go"))
		user := w.startDiskUser(serviceUser(slowService, unlimited+"true")...)
		began := len(w.services())
		w.Await("the service to start", func() bool { return len(w.services()) > began })
		keeper := w.serviceKeeper()
		before := w.modified("state/shared")
		w.limitFiles(0, keeper)
		w.touch("go")
		w.Await("the keeper to write in vain", func() bool { return w.modified("state/shared").After(before) })
		w.limitFiles(unix.RLIM_INFINITY, keeper)
		if code := user.end(); code == 0 {
			return
		} else if code != exitExecFailure {
			t.Errorf("exit code %d\n%s", code, &user.stderr)
		}
	}
	t.Error("no command ran, although there was room again")
}

func (w *world) modified(path string) time.Time {
	info, err := os.Stat(w.Path(path))
	if err != nil {
		w.T.Fatal(err)
	}
	return info.ModTime()
}

// A newcomer that cannot join says so, leaves no part of a record, and takes no use away: the round
// has two.
func fullForNewcomer(t *testing.T, w *world) {
	bound := []string{"--max-uses", "2+0%"}
	first := w.startServiceUser(stubborn, bound...)
	before := len(w.services())
	ran, _ := os.ReadFile(w.Path("ran"))
	w.fullFor(serviceUser(stubborn, unlimited+"true", bound...)...).wants(exitExecFailure, noRoom)
	if now, _ := os.ReadFile(w.Path("ran")); !bytes.Equal(ran, now) {
		t.Error("a command ran")
	}
	if part, _ := filepath.Glob(w.Path("state/shared/*.new")); len(part) > 0 {
		t.Errorf("a part of a record is left: %v", part)
	}
	w.Run(0, serviceUser(stubborn, "true", bound...)...)
	if len(w.services()) != before {
		t.Error("another service was started")
	}
	first.Process.Signal(syscall.SIGTERM)
	first.Wait()
	deadBeforeRelease(t, w)
}

// The last user cannot write that it leaves. The keeper notices, and ends the round.
func fullWhenLeaving(t *testing.T, w *world) {
	user := w.startDiskUser(serviceUser(stubborn, "touch up; until test -e go; do sleep 0.01; done")...)
	w.Await("a user", func() bool { return clitest.Exists(w.Path("up")) })
	w.limitFiles(0, w.serviceKeeper(), user.Process.Pid)
	w.touch("go")
	user.wants(0, noRoom)
	if w.one == nil {
		deadBeforeRelease(t, w)
	}
}

// The keeper cannot say that its service has ended. Its users hear it all the same, and the last
// gives the lease back.
func fullWhenServiceEnds(t *testing.T, w *world) {
	w.touch("go")
	user := w.startDiskUser(serviceUser(slowService, "touch up; exec sleep 600")...)
	w.Await("a user", func() bool { return clitest.Exists(w.Path("up")) })
	w.limitFiles(0, w.serviceKeeper(), user.Process.Pid)
	w.touch("end")
	user.wants(exitLost, noRoom, "its keeper could not write the record of the round: stopping the command")
	if w.one == nil {
		deadBeforeRelease(t, w)
	}
}

func fullWhenKeeperKilled(t *testing.T, w *world) {
	user := w.startDiskUser(serviceUser(stubborn, "touch up; exec sleep 600")...)
	w.Await("a user", func() bool { return clitest.Exists(w.Path("up")) })
	keeper := w.serviceKeeper()
	w.limitFiles(0, user.Process.Pid)
	syscall.Kill(keeper, syscall.SIGKILL)
	user.wants(exitLost, noRoom, "its keeper was killed: stopping the command")
	if w.one == nil {
		deadBeforeRelease(t, w)
	}
}

// The log has no room, but the record has. The service is not held up, and goes on as if it had a
// log.
func fullLog(t *testing.T, w *world) {
	const room = 16 << 10
	service := `echo $$ >>pids; echo RUNS_AS=$$; until test -e go; do sleep 0.01; done; i=0
		while test $i -lt 3000; do i=$((i+1)); echo "$i 0123456789012345678901234567890123456789012345678901234567890123456789"; done
		touch printed; exec sleep 600`
	user := w.startServiceUser(service)
	w.limitFiles(room, w.serviceKeeper())
	w.touch("go")
	w.Await("the service to print all", func() bool { return clitest.Exists(w.Path("printed")) })
	logs, _ := filepath.Glob(w.Path("state/shared/*.log"))
	if len(logs) != 1 {
		t.Fatalf("logs: %v", logs)
	}
	if info, err := os.Stat(logs[0]); err != nil || info.Size() > room {
		t.Errorf("the log has %d bytes: %v", info.Size(), err)
	}
	w.Run(0, serviceUser(service, "true")...)
	if n := len(w.services()); n != 1 {
		t.Errorf("%d services were started, want 1", n)
	}
	user.Process.Signal(syscall.SIGTERM)
	user.Wait()
	deadBeforeRelease(t, w)
}

// Nobody can write that the lease was renewed. It counts as lost before its end, and its service and
// the commands have ended then.
func fullUntilLost(t *testing.T, w *world) {
	user := w.startDiskUser(serviceUser(stubborn, "touch up; exec sleep 600")...)
	w.Await("a user", func() bool { return clitest.Exists(w.Path("up")) })
	w.limitFiles(0, w.serviceKeeper(), user.Process.Pid)
	user.wants(exitLost, noRoom, "lease lost: not renewed in time")
	deadBeforeRelease(t, w)
}
