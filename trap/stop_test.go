package trap

import (
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stubborn prints its process id when it ignores TERM, and never ends.
const stubborn = `(trap '' TERM; exec sh -c 'echo $$; exec sleep 1000')`

// A group that obeys is waited for no longer than it takes.
func TestStopReturnsWhenTheGroupIsGone(t *testing.T) {
	out, w := report(t)
	child := start(t, Command{Args: shell(`sh -c 'echo $$; exec sleep 1000' & wait`), Stdout: w})
	grandchild := atoi(t, out.next())
	begin := time.Now()
	if s := child.Stop(syscall.SIGTERM, time.Hour); s.Signal != syscall.SIGTERM {
		t.Errorf("ended with %v", s)
	}
	if took := time.Since(begin); took > patience {
		t.Errorf("took %v", took)
	}
	if !gone(grandchild) {
		t.Error("the grandchild lives")
	}
}

// A leader that ends at once does not save a grandchild that ignores TERM: it
// is dead after the grace period, and only then the child counts as ended.
func TestStopKillsWhatIgnoresTheSignal(t *testing.T) {
	const grace = 50 * time.Millisecond
	out, w := report(t)
	child := start(t, Command{Args: shell(strings.Repeat(stubborn+" & ", 20) + "wait"), Stdout: w})
	var grandchildren []int
	for range 20 {
		grandchildren = append(grandchildren, atoi(t, out.next()))
	}
	alive := func() []int {
		return slices.DeleteFunc(slices.Clone(grandchildren), gone)
	}
	atDone := make(chan []int, 1)
	go func() {
		<-child.Done()
		atDone <- alive()
	}()
	begin := time.Now()
	if s := child.Stop(syscall.SIGTERM, grace); s.Signal != syscall.SIGTERM {
		t.Errorf("ended with %v", s)
	}
	if took := time.Since(begin); took < grace {
		t.Errorf("gave up after %v, before the grace period", took)
	}
	if pids := alive(); len(pids) > 0 {
		t.Errorf("grandchildren %v live", pids)
	}
	if pids := receive(t, atDone); len(pids) > 0 {
		t.Errorf("the child counted as ended while %v of its group lived", pids)
	}
}

// A leader that ignores the signal is killed, and a second, more urgent Stop
// does not wait for the first.
func TestStopIsOvertakenByKill(t *testing.T) {
	out, w := report(t)
	child := start(t, Command{Args: shell("exec " + `sh -c "trap '' TERM; echo ready; sleep 1000; sleep 1000"`), Stdout: w})
	out.want("ready")
	var first sync.WaitGroup
	first.Go(func() {
		if s := child.Stop(syscall.SIGTERM, time.Hour); s.Signal != syscall.SIGKILL {
			t.Errorf("ended with %v", s)
		}
	})
	if s := child.Kill(); s.Signal != syscall.SIGKILL {
		t.Errorf("ended with %v", s)
	}
	first.Wait()
}

// A stopped group sees the signal.
func TestStopWakesAStoppedGroup(t *testing.T) {
	out, w := report(t)
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	argv, env := self("signals")
	child := start(t, Command{Args: argv, Env: env, Stdin: in, Stdout: w})
	in.Close()
	w.Close()
	out.want("ready")
	child.Signal(syscall.SIGSTOP)
	if s := child.Stop(syscall.SIGTERM, time.Hour); s.Code != 0 || s.Signal != 0 {
		t.Errorf("ended with %v, not by its own handler", s)
	}
	out.want("terminated")
}

// moverMode leaves its group, and a process in it, for another group of its
// session, ignoring TERM.
func moverMode([]string) int {
	signal.Ignore(syscall.SIGTERM)
	argv := shell("sleep 1000; sleep 1000")
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
	os.Stdout.WriteString(itoa(other) + "\n")
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1) // or the runtime would call it a deadlock
	<-never
	return 0
}

// A leader that has gone to another group is ended as well, that group is not.
func TestStopEndsALeaderThatLeft(t *testing.T) {
	out, w := report(t)
	argv, env := self("mover")
	child := start(t, Command{Args: argv, Env: env, Stdout: w})
	other := atoi(t, out.next())
	defer syscall.Kill(-other, syscall.SIGKILL)
	ended := make(chan Status, 1)
	go func() { ended <- child.Stop(syscall.SIGTERM, 10*time.Millisecond) }()
	if s := receive(t, ended); s.Signal != syscall.SIGKILL {
		t.Errorf("ended with %v", s)
	}
	if gone(other) {
		t.Error("a group that is not ours was killed")
	}
}
