package child

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/testenv"
)

// startGuarded starts a shell script with a guard, and returns its lock file and what the script
// prints.
func startGuarded(t *testing.T, script string) (g *Guarded, lock string, out *testenv.Lines) {
	t.Helper()
	return startGuardedCommand(t, Command{Args: testenv.Shell(script), Env: os.Environ()})
}

// startGuardedCommand is startGuarded for another command.
func startGuardedCommand(t *testing.T, c Command) (g *Guarded, lock string, out *testenv.Lines) {
	t.Helper()
	lock = filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	out, w := testenv.Report(t)
	defer w.Close()
	c.Stdout = w
	if g, err = StartGuarded(c, f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Stop(syscall.SIGKILL, 0)
		g.Wait()
	})
	return g, lock, out
}

// guarded tells whether the guard has its lock file locked.
func guarded(t *testing.T, lock string) bool {
	t.Helper()
	f, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// Stop ends a group that obeys at once, and one that does not after the grace period.
func TestGuardedStop(t *testing.T) {
	g, lock, out := startGuarded(t, `echo $$; exec sleep 1000`)
	pid := testenv.Atoi(t, out.Next())
	if !guarded(t, lock) {
		t.Error("its guard has no lock")
	}
	g.Stop(syscall.SIGTERM, time.Hour)
	if s := g.Wait(); s.Signal != syscall.SIGTERM {
		t.Errorf("ended with %v", s)
	}
	testenv.AwaitGone(t, pid)
	if guarded(t, lock) {
		t.Error("the guard has outlived its group")
	}

	g, _, out = startGuarded(t, `(`+stubborn+`) & wait`)
	pid = testenv.Atoi(t, out.Next())
	g.Stop(syscall.SIGTERM, 10*time.Millisecond)
	g.Wait()
	testenv.AwaitGone(t, pid)
}

// A command whose process has ended lives on in its group, and its exit code is known.
func TestGuardedGroup(t *testing.T) {
	g, _, out := startGuarded(t, `echo $$; sh -c 'trap "echo alive" USR1; echo $$; while :; do sleep 0.01; done' & exit 3`)
	command, other := testenv.Atoi(t, out.Next()), testenv.Atoi(t, out.Next())
	testenv.AwaitGone(t, command)
	for range 3 { // long enough for its group to have been killed
		syscall.Kill(other, syscall.SIGUSR1)
		out.Want("alive")
	}
	select {
	case <-g.Done():
		t.Error("it counts as ended although its group lives")
	default:
	}
	syscall.Kill(other, syscall.SIGKILL)
	if s := g.Wait(); s.ExitCode() != 3 {
		t.Errorf("ended with %v", s)
	}
}

// As long as a group may be signalled, its leader is there, at least as a zombie: its id cannot be
// another's.
func TestGuardNotReused(t *testing.T) {
	for range 20 {
		g, _, out := startGuarded(t, `echo begun; exec sleep 1000`)
		out.Want("begun")
		syscall.Kill(g.Group(), syscall.SIGKILL)
		for reaped := false; !reaped; {
			g.mu.Lock()
			reaped = g.reaped
			there := syscall.Kill(g.Group(), 0) == nil
			g.mu.Unlock()
			if !reaped && !there {
				t.Fatal("the guard is reaped, and its group may be signalled")
			}
		}
	}
}

// If the guard is killed, so is the group.
func TestGuardKilled(t *testing.T) {
	g, lock, out := startGuarded(t, stubborn)
	pid := testenv.Atoi(t, out.Next())
	syscall.Kill(g.Group(), syscall.SIGKILL)
	if s := g.Wait(); s.ExitCode() == 0 {
		t.Errorf("ended with %v", s)
	}
	testenv.AwaitGone(t, pid)
	if guarded(t, lock) {
		t.Error("the lock is still there")
	}
}

// guardedMode starts a guarded command, and ends without a word to it.
func guardedMode(args []string) int {
	f, err := os.Open(args[0])
	if err == nil {
		_, err = StartGuarded(Command{Args: testenv.Shell(stubborn + " & " + stubborn + " & wait"), Env: os.Environ(), Stdout: os.Stdout}, f)
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// The end of the process that started it ends the whole group.
func TestGuardedEndsWithItsStarter(t *testing.T) {
	out, w := testenv.Report(t)
	argv, env := testenv.Self("guarded", os.DevNull)
	starter := testenv.Start(t, argv, env, nil, w, nil)
	w.Close()
	pids := []int{testenv.Atoi(t, out.Next()), testenv.Atoi(t, out.Next())}
	starter.Process.Kill()
	starter.Wait()
	for _, pid := range pids {
		testenv.AwaitGone(t, pid)
	}
}

// A command that cannot be started leaves no guard.
func TestGuardedNotFound(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(lock)
	if err != nil {
		t.Fatal(err)
	}
	syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	_, err = StartGuarded(Command{Path: "/no/such/program", Args: []string{"x"}}, f)
	f.Close()
	if err == nil || guarded(t, lock) {
		t.Errorf("%v, and a guard is left: %t", err, guarded(t, lock))
	}
}

// sessionMode begins a session of its own with a child in it, as setsid(1) and daemons do, and ignores TERM.
func sessionMode([]string) int {
	signal.Ignore(syscall.SIGTERM)
	if _, err := syscall.Setsid(); err != nil {
		panic(err)
	}
	argv := testenv.Shell("sleep 1000; sleep 1000")
	worker, _, err := syscall.StartProcess(argv[0], argv, &syscall.ProcAttr{})
	if err != nil {
		panic(err)
	}
	fmt.Println(os.Getpid())
	fmt.Println(worker)
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1) // or the runtime would call it a deadlock
	<-never
	return 0
}

// A command that has left its group ends all the same, and so does the group that it leads now.
func TestGuardedCommandLeaves(t *testing.T) {
	argv, env := testenv.Self("session")
	g, _, out := startGuardedCommand(t, Command{Args: argv, Env: env})
	command, worker := testenv.Atoi(t, out.Next()), testenv.Atoi(t, out.Next())
	g.Stop(syscall.SIGTERM, 10*time.Millisecond)
	testenv.Receive(t, g.Done())
	testenv.AwaitGone(t, command)
	testenv.AwaitGone(t, worker)
}

// leaverMode leaves its group at USR1, and ends at the end of its input.
func leaverMode([]string) int {
	leave := make(chan os.Signal, 1)
	signal.Notify(leave, syscall.SIGUSR1)
	fmt.Println(os.Getpid())
	<-leave
	if _, err := syscall.Setsid(); err != nil {
		panic(err)
	}
	fmt.Println("left")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// A process that leaves the group while it is waited for is not waited for any more.
func TestGuardedMemberLeaves(t *testing.T) {
	argv, env := testenv.Self("leaver")
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close() // ends the leaver
	g, _, out := startGuardedCommand(t, Command{Args: append(testenv.Shell(`exec 3<&0; "$0" "$@" <&3 3<&- &`), argv...), Env: env, Stdin: in})
	in.Close()
	pid := testenv.Atoi(t, out.Next())
	syscall.Kill(pid, syscall.SIGUSR1)
	out.Want("left")
	testenv.Receive(t, g.Done())
	if syscall.Kill(pid, 0) != nil {
		t.Error("what has left the group was ended")
	}
}
