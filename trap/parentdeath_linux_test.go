package trap

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func init() { modes["parent"] = parentMode }

// parentMode starts a command with a parent-death signal and stays.
func parentMode(args []string) int {
	os.Stderr.WriteString("starting\n")
	child, err := Start(Command{Args: args, Env: append(os.Environ(), modeName+"=signals"), Stdin: os.Stdin, Stdout: os.Stdout, ParentDeath: syscall.SIGTERM})
	if err != nil {
		panic(err)
	}
	return child.Wait().ExitCode()
}

// A child whose supervisor is killed gets the parent-death signal.
func TestParentDeath(t *testing.T) {
	in, inW, err := os.Pipe() // never closed: the end of input would end the child
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer inW.Close()
	for range 10 {
		out, w := report(t)
		target, _ := self("signals")
		argv, env := self("parent", target...)
		parent := start(t, Command{Args: argv, Env: env, Stdin: in, Stdout: w})
		w.Close()
		out.want("ready")
		syscall.Kill(parent.Pid(), syscall.SIGKILL)
		out.want("terminated")
		if extra := out.rest(); len(extra) > 0 { // ends when the child has
			t.Errorf("further signals: %q", extra)
		}
	}
}

// No child outlives its supervisor, at whatever instant of the start that is
// killed. What would show is a pipe that the child holds open.
func TestParentDeathDuringStart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		alive, held := report(t)
		steps, w := report(t)
		argv, env := self("parent", "/bin/sleep", "1000")
		parent := start(t, Command{Args: argv, Env: env, Stdout: held, Stderr: w})
		held.Close()
		w.Close()
		steps.want("starting")
		for range random.IntN(2000) { // up to about a millisecond, the time a start takes
			runtime.Gosched()
		}
		syscall.Kill(parent.Pid(), syscall.SIGKILL)
		if data, err := io.ReadAll(alive.f); err != nil {
			t.Fatalf("a child lives: read %q: %v", data, err)
		}
	}
}

// The parent-death signal is bound to a thread. That of the caller may end
// without the child being sent anything.
func TestCallersThreadMayEnd(t *testing.T) {
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	out, w := report(t)
	argv, env := self("signals")
	started := make(chan *Child)
	thread := make(chan int, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		thread <- syscall.Gettid()
		child, err := Start(Command{Args: argv, Env: env, Stdin: in, Stdout: w, ParentDeath: syscall.SIGUSR2})
		if err != nil {
			t.Error(err)
		}
		started <- child
	}()
	tid := <-thread
	child := <-started
	if child == nil {
		t.FailNow()
	}
	t.Cleanup(func() { child.Kill() })
	in.Close()
	w.Close()
	out.want("ready")
	if tid == os.Getpid() {
		t.Skip("the goroutine ran on the main thread, which never ends")
	}
	for {
		stat, err := os.ReadFile(filepath.Join("/proc/self/task", itoa(tid), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break // nobody tells of a thread's end
		}
		runtime.Gosched()
	}
	child.Signal(syscall.SIGUSR1)
	out.want("user defined signal 1")
}
