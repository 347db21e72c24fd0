package campaign

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// sharedTTL is short, so some users have --on-lost warn: on a slow machine they may miss the margin
// before the end of the lease and take it for lost, although it has not ended.
const sharedTTL = 3 * time.Second

// TestSharedUsers stops and kills the users of one lease, and takes their lease away.
func TestSharedUsers(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	short := []string{"--config", clitest.ShortTTL(t, sharedTTL)}
	for _, tt := range []struct {
		name  string
		test  func(*testing.T, *world)
		pools []string
	}{
		{"stopped renewer", stoppedRenewer, short},
		{"killed renewer", killedRenewer, short},
		{"all stopped", allStopped, short},
		{"broken", brokenLease, short},
		{"given back", givenBackByHandle, []string{"--pool", "one=1"}},
		{"waiting", waitingUsers, []string{"--pool", "one=1"}},
		{"all killed", allKilled, []string{"--pool", "one=1"}},
		{"race for uses", raceForUses, []string{"--pool", "one=3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, newWorldOf(t, program, tt.pools...))
		})
	}
}

// The user that renews is stopped for longer than the TTL. Another user renews instead, and no user
// loses the lease, not even the stopped one.
func stoppedRenewer(t *testing.T, w *world) {
	users := w.startUsers(1, "--on-lost", "warn")
	w.Await("the first renewal", func() bool { return renewers(w) > 0 })
	users = append(users, w.startUser("up1", "--on-lost", "warn"), w.startUser("up2", "--on-lost", "warn"))
	users[0].Process.Signal(syscall.SIGSTOP)
	time.Sleep(sharedTTL * 5 / 4) // the TTL goes by
	users[0].Process.Signal(syscall.SIGCONT)
	w.Await("a look at the record", func() bool { return renewers(w) > 2 })
	w.endUsers(users, 0)
	if l := w.Ledger(); len(l.Granted) != 1 || strings.Contains(w.Log.String(), "msg=expired") {
		t.Errorf("%d leases were granted, want one that does not expire\n%s", len(l.Granted), w.Log)
	}
	w.nothingShared()
}

// The user that renews is killed. Another user takes the renewals over.
func killedRenewer(t *testing.T, w *world) {
	users := w.startUsers(1, "--on-lost", "warn")
	w.Await("the first renewal", func() bool { return renewers(w) > 0 })
	users = append(users, w.startUser("up1", "--on-lost", "warn"))
	users[0].Process.Kill()
	users[0].Wait()
	time.Sleep(sharedTTL * 5 / 4) // the TTL goes by
	w.endUsers(users[1:], 0)
	if strings.Contains(w.Log.String(), "msg=expired") {
		t.Errorf("the lease has expired\n%s", w.Log)
	}
	w.nothingShared()
}

// All users are stopped for longer than the TTL. The lease is lost, and all users notice. With
// --on-lost warn the command goes on.
func allStopped(t *testing.T, w *world) {
	users := append(w.startUsers(2), w.startUser("warned", "--on-lost", "warn"))
	w.Await("the first renewal", func() bool { return renewers(w) > 0 }) // a grant that was never renewed lasts longer
	for _, user := range users {
		user.Process.Signal(syscall.SIGSTOP)
	}
	w.Await("the lease to end", func() bool { return w.Pool("one").InUse == 0 })
	for _, user := range users {
		user.Process.Signal(syscall.SIGCONT)
	}
	w.Await("the users to hear of it", func() bool { return strings.Count(w.Log.String(), "stopping the command") == 2 })
	w.Await("a warning", func() bool { return strings.Contains(w.Log.String(), "the command goes on without it") })
	for _, user := range users[:2] {
		if code := clitest.ExitCode(user.Wait()); code != exitLost {
			t.Errorf("exit code %d, want %d", code, exitLost)
		}
	}
	w.endUsers(users[2:], 0)
	w.nothingShared()
	w.WantHeld()
}

// An operator takes the lease away. The user that notices tells the others.
func brokenLease(t *testing.T, w *world) {
	users := w.startUsers(3)
	w.Run(0, "break", "one-0", "--reason", "maintenance", "--now")
	for _, user := range users {
		if code := clitest.ExitCode(user.Wait()); code != exitLost {
			t.Errorf("exit code %d, want %d", code, exitLost)
		}
	}
	if n := strings.Count(w.Log.String(), "maintenance): stopping the command"); n != 3 {
		t.Errorf("%d users were told why, want 3\n%s", n, w.Log)
	}
	w.nothingShared()
}

// Somebody gives the lease back through its handle. All users notice, and no later command joins
// the round.
func givenBackByHandle(t *testing.T, w *world) {
	users := w.startUsers(2)
	// It is a user, too: if it does not end within a second, it hears that its lease is lost.
	switch code := clitest.ExitCode(w.Command(shared("A", nil, "exec '"+w.Program+"' release --handle \"$LEASECTL_HANDLE\"")...).Run()); code {
	case 0, exitLost:
	default:
		t.Errorf("exit code %d, want 0 or %d", code, exitLost)
	}
	w.Run(0, shared("A", nil, "true")...)
	for _, user := range users {
		if code := clitest.ExitCode(user.Wait()); code != exitLost {
			t.Errorf("exit code %d, want %d", code, exitLost)
		}
	}
	w.Await("the second lease in the log", func() bool { return len(w.Ledger().Granted) > 1 })
	if l := w.Ledger(); len(l.Granted) != 2 {
		t.Errorf("%d leases were granted, want 2", len(l.Granted))
	}
	w.nothingShared()
}

// The first user waits in the queue, and others wait for the first. If the first is killed or told
// to end, the next one queues in its place. A waiting newcomer that is killed or told to end leaves
// nothing.
func waitingUsers(t *testing.T, w *world) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		w.Run(0, "acquire", "--type", "one", "--handle", w.Path("blocker"))
		first := w.waitingUser()
		w.Await("the first to queue", func() bool { return w.Pool("one").Waiting == 1 })
		second, third := w.waitingUser(), w.waitingUser()
		second.Process.Signal(sig)
		second.Wait()
		first.Process.Signal(sig)
		first.Wait()
		w.Run(0, "release", "--handle", w.Path("blocker"))
		if out, err := third.output(); err != nil || strings.TrimSpace(out) != "one-0" {
			t.Errorf("%v: the third got %q, %v", sig, out, err)
		}
		w.nothingShared()
		if pool := w.Pool("one"); pool.InUse+pool.Waiting != 0 {
			t.Errorf("%v: %d are held, %d wait", sig, pool.InUse, pool.Waiting)
		}
	}
}

// All users are killed at once. The next command of the NAME goes on with the lease and with its
// count of uses. Without a next command, recover gives the lease back.
func allKilled(t *testing.T, w *world) {
	for _, next := range []string{"exec", "recover"} {
		users := w.startUsers(5)
		for _, user := range users {
			user.Process.Kill()
			user.Wait()
		}
		if held := w.Pool("one").InUse; held != 1 {
			t.Errorf("%d are held after the users were killed, want 1", held)
		}
		if next == "recover" {
			if out := w.Run(0, "recover"); !strings.Contains(out, `released one-0: no user of shared lease "A" lives`) {
				t.Errorf("recover says %q", out)
			}
		} else {
			w.Run(0, shared("A", nil, `test $(cut -d/ -f3 <<uses
$LEASECTL_USES
uses
) = 6`)...)
		}
		if held := w.Pool("one").InUse; held != 0 {
			t.Errorf("then %s: %d are held", next, held)
		}
		w.nothingShared()
	}
	w.WantHeld()
}

// Sixty short commands start at once. No lease has more uses than the bound says, and no command is
// refused.
func raceForUses(t *testing.T, w *world) {
	const commands, bound = 60, 6
	var users []*sharedUser
	for range commands {
		u := &sharedUser{Cmd: w.Command(shared("A", []string{"--max-uses", "4+50%"}, "echo $LEASECTL_GENERATION")...)}
		u.Stdout, u.Stderr = &u.stdout, w.Log
		if err := u.Start(); err != nil {
			t.Fatal(err)
		}
		users = append(users, u)
	}
	used := make(map[string]int)
	for _, u := range users {
		out, err := u.output()
		if err != nil {
			t.Errorf("a command: %v", err)
		}
		used[strings.TrimSpace(out)]++
	}
	for generation, n := range used {
		if n > bound {
			t.Errorf("generation %s was used %d times, want %d at most", generation, n, bound)
		}
	}
	if granted := len(w.Ledger().Granted); granted != len(used) || granted < commands/bound {
		t.Errorf("%d leases were granted, %d used", granted, len(used))
	}
	t.Logf("uses by generation: %v", used)
	w.nothingShared()
	w.WantHeld()
}

// waitingUser starts a command that shares a lease, and has to wait for the lease.
func (w *world) waitingUser() *sharedUser {
	u := &sharedUser{Cmd: w.Command(shared("A", nil, "echo $LEASECTL_NAMES")...)}
	u.Stdout, u.Stderr = &u.stdout, w.Log
	if err := u.Start(); err != nil {
		w.T.Fatal(err)
	}
	return u
}

type sharedUser struct {
	*exec.Cmd
	stdout bytes.Buffer
}

func (u *sharedUser) output() (string, error) {
	err := u.Wait()
	return u.stdout.String(), err
}

// renewers counts the renewals in the log of the users.
func renewers(w *world) int { return strings.Count(w.Log.String(), "leasectl: renewed ") }

// endUsers lets commands of startUsers end, and checks their exit code.
func (w *world) endUsers(users []*exec.Cmd, code int) {
	w.T.Helper()
	if err := os.WriteFile(w.Path("go"), nil, 0o600); err != nil {
		w.T.Fatal(err)
	}
	for i, user := range users {
		if got := clitest.ExitCode(user.Wait()); got != code {
			w.T.Errorf("user %d: exit code %d, want %d\n%s", i, got, code, w.Log)
		}
	}
}
