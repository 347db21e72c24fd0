package trap

import (
	"os"
	"os/signal"
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
	child := start(t, Command{Args: shell(stubborn + ` & wait`), Stdout: w})
	grandchild := atoi(t, out.next())
	dead := make(chan bool, 1)
	go func() {
		<-child.Done()
		dead <- gone(grandchild)
	}()
	begin := time.Now()
	if s := child.Stop(syscall.SIGTERM, grace); s.Signal != syscall.SIGTERM {
		t.Errorf("ended with %v", s)
	}
	if took := time.Since(begin); took < grace {
		t.Errorf("gave up after %v, before the grace period", took)
	}
	if !gone(grandchild) {
		t.Error("the grandchild lives")
	}
	if !receive(t, dead) {
		t.Error("the child counted as ended while its group lived")
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

// moverMode leaves its group for another one of its session, ignoring TERM.
func moverMode([]string) int {
	signal.Ignore(syscall.SIGTERM)
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}}
	other, _, err := syscall.StartProcess("/bin/sh", shell("sleep 1000; sleep 1000"), attr)
	if err == nil {
		err = syscall.Setpgid(0, other)
	}
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(itoa(other) + "\n")
	select {}
}

// A leader that has gone to another group is ended as well, that group is not.
func TestStopEndsALeaderThatLeft(t *testing.T) {
	out, w := report(t)
	argv, env := self("mover")
	child := start(t, Command{Args: argv, Env: env, Stdout: w})
	other := atoi(t, out.next())
	defer syscall.Kill(-other, syscall.SIGKILL)
	if s := child.Stop(syscall.SIGTERM, 10*time.Millisecond); s.Signal != syscall.SIGKILL {
		t.Errorf("ended with %v", s)
	}
	if gone(other) {
		t.Error("a group that is not ours was killed")
	}
}
