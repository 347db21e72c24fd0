package child

import (
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/sys"
	"github.com/leasectl/leasectl/internal/testenv"
)

// stubborn prints its process id when it ignores TERM, and never ends.
const stubborn = `(trap '' TERM; exec sh -c 'echo $$; exec sleep 1000')`

// stop stops a child and waits for its end.
func stop(t *testing.T, p *Process, sig syscall.Signal, grace time.Duration) Status {
	t.Helper()
	p.Stop(sig, grace)
	return wait(t, p)
}

// Stop waits for a group that obeys no longer than the group takes to end.
func TestStopReturnsWhenTheGroupIsGone(t *testing.T) {
	out, w := testenv.Report(t)
	child := start(t, Command{Args: testenv.Shell(`sh -c 'echo $$; exec sleep 1000' & wait`), Stdout: w})
	grandchild := testenv.Atoi(t, out.Next())
	if s := stop(t, child, syscall.SIGTERM, time.Hour); s.Signal != syscall.SIGTERM {
		t.Errorf("ended with %v", s)
	}
	if !sys.Gone(grandchild) {
		t.Error("the grandchild lives")
	}
}

// A leader that ends at once does not save a grandchild that ignores TERM. The grandchild is
// dead after the grace period, and only then the child counts as ended.
func TestStopKillsWhatIgnoresTheSignal(t *testing.T) {
	const grace = 50 * time.Millisecond
	out, w := testenv.Report(t)
	child := start(t, Command{Args: testenv.Shell(strings.Repeat(stubborn+" & ", 20) + "wait"), Stdout: w})
	var grandchildren []int
	for range 20 {
		grandchildren = append(grandchildren, testenv.Atoi(t, out.Next()))
	}
	alive := func() []int {
		return slices.DeleteFunc(slices.Clone(grandchildren), sys.Gone)
	}
	atDone := make(chan []int, 1)
	go func() {
		<-child.Done()
		atDone <- alive()
	}()
	begin := time.Now()
	if s := stop(t, child, syscall.SIGTERM, grace); s.Signal != syscall.SIGTERM {
		t.Errorf("ended with %v", s)
	}
	if took := time.Since(begin); took < grace {
		t.Errorf("gave up after %v, before the grace period", took)
	}
	if pids := alive(); len(pids) > 0 {
		t.Errorf("grandchildren %v live", pids)
	}
	if pids := testenv.Receive(t, atDone); len(pids) > 0 {
		t.Errorf("the child counted as ended while %v of its group lived", pids)
	}
}

// A child that has ended by itself is not stopped, even if nobody has reaped it yet, as after a
// suspension of this process. What it left behind is left alone.
func TestStopAfterTheEnd(t *testing.T) {
	out, w := testenv.Report(t)
	argv := testenv.Shell("sleep 1000 & echo $!; exit 3")
	sys.ForkLock.RLock()
	pid, err := sys.StartProcess(argv[0], argv, &syscall.ProcAttr{Files: []uintptr{0, w.Fd(), 2}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	sys.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	left := testenv.Atoi(t, out.Next())
	defer syscall.Kill(left, syscall.SIGKILL)
	if _, err := sys.Waitid(pid, sys.WaitEnd|sys.WaitPeek); err != nil {
		t.Fatal(err)
	}
	g := newGroup()
	defer g.tty.close()
	g.id = pid
	if g.stop(syscall.SIGKILL, 0) {
		t.Error("it says that it stops the child")
	}
	if status, _ := g.reap(); status.Code != 3 {
		t.Errorf("ended with %+v", status)
	}
	if sys.Gone(left) {
		t.Error("what the child left behind was killed")
	}
}

// A leader that ignores the signal is killed, and a second, more urgent Stop
// does not wait for the first.
func TestStopIsOvertakenByKill(t *testing.T) {
	out, w := testenv.Report(t)
	child := start(t, Command{Args: testenv.Shell("exec " + `sh -c "trap '' TERM; echo ready; sleep 1000; sleep 1000"`), Stdout: w})
	out.Want("ready")
	child.Stop(syscall.SIGTERM, time.Hour)
	if s := stop(t, child, syscall.SIGKILL, 0); s.Signal != syscall.SIGKILL {
		t.Errorf("ended with %v", s)
	}
}

// During a stop every further signal reaches the group each time it comes, also the stop's own
// signal, and also after the leader's end.
func TestSignalsDuringAStop(t *testing.T) {
	out, w := testenv.Report(t)
	in, inW, err := os.Pipe() // its end would end the grandchild
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	leader, env := testenv.Self("leader", "grandchild")
	argv := append(testenv.Shell(`exec 3<&0; "$0" "$@" <&3 & exec sleep 1000`), leader...)
	child := start(t, Command{Args: argv, Env: env, Stdin: in, Stdout: w})
	in.Close()
	w.Close()
	out.Want("grandchild ready")
	child.Stop(syscall.SIGTERM, time.Hour)
	out.Want("grandchild terminated")
	testenv.AwaitGone(t, child.Pid())
	for range 5 {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM} {
			if err := child.Signal(sig); err != nil {
				t.Fatalf("%v during the stop: %v", sig, err)
			}
			out.Want("grandchild " + sig.String())
		}
	}
	select {
	case <-child.Done():
		t.Error("the child counts as ended while its grandchild lives")
	default:
	}
	child.Signal(syscall.SIGKILL)
	if s := wait(t, child); s.Signal != syscall.SIGTERM {
		t.Errorf("ended with %v, not as the leader", s)
	}
}

// forkers are processes that fork as fast as they can, up to a number that a machine survives
// if no stop ends them.
const forkers = `for i in 1 2 3 4 5 6 7 8; do
	(i=0; while [ $i -lt 150 ]; do i=$((i+1)); sleep 1000 & echo $!; done; wait) &
done; wait`

// A KILL without a grace period leaves no process of the group, not even one that is forked at
// that moment.
func TestKillLeavesNobody(t *testing.T) {
	for forked := range 10 {
		out, w := testenv.Report(t)
		child := start(t, Command{Args: testenv.Shell(forkers), Stdout: w})
		w.Close()
		for range 1 + 10*forked {
			out.Next()
		}
		if s := stop(t, child, syscall.SIGKILL, 0); s.Signal != syscall.SIGKILL {
			t.Errorf("ended with %v", s)
		}
		if pids, err := liveMembers(child.Pid()); err != nil || len(pids) > 0 {
			t.Fatalf("%d members survive (%v)", len(pids), err)
		}
		out.Rest() // ends when nobody holds the other end
	}
}

// A stopped group sees the signal.
func TestStopWakesAStoppedGroup(t *testing.T) {
	child, out := startHearing(t)
	child.Signal(syscall.SIGSTOP)
	if s := stop(t, child, syscall.SIGTERM, time.Hour); s.Code != 0 || s.Signal != 0 {
		t.Errorf("ended with %v, not by its own handler", s)
	}
	out.Want("terminated")
}

// moverMode leaves its group, and a process in it, for another group of its
// session, ignoring TERM.
func moverMode([]string) int {
	signal.Ignore(syscall.SIGTERM)
	argv := testenv.Shell("sleep 1000; sleep 1000")
	_, _, err := syscall.StartProcess(argv[0], argv, &syscall.ProcAttr{})
	if err != nil {
		panic(err)
	}
	other, _, err := syscall.StartProcess(argv[0], argv, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err == nil {
		err = syscall.Setpgid(0, other)
	}
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.Itoa(other) + "\n")
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1) // or the runtime would call it a deadlock
	<-never
	return 0
}

// A leader that has moved to another group is ended as well; the rest of that group is not.
func TestStopEndsALeaderThatLeft(t *testing.T) {
	out, w := testenv.Report(t)
	argv, env := testenv.Self("mover")
	child := start(t, Command{Args: argv, Env: env, Stdout: w})
	other := testenv.Atoi(t, out.Next())
	defer syscall.Kill(-other, syscall.SIGKILL)
	if s := stop(t, child, syscall.SIGTERM, 10*time.Millisecond); s.Signal != syscall.SIGKILL {
		t.Errorf("ended with %v", s)
	}
	if sys.Gone(other) {
		t.Error("a group that is not ours was killed")
	}
}
