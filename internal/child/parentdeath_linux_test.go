package child

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

func init() { modes["parent"] = parentMode }

// parentMode starts a command with a parent-death signal and stays.
func parentMode(args []string) int {
	os.Stderr.WriteString("starting\n")
	child, err := Start(Command{Args: args, Env: append(os.Environ(), testenv.ModeName+"=signals"), Stdin: os.Stdin, Stdout: os.Stdout, ParentDeath: syscall.SIGTERM})
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
		out, w := testenv.Report(t)
		target, _ := testenv.Self("signals")
		argv, env := testenv.Self("parent", target...)
		parent := start(t, Command{Args: argv, Env: env, Stdin: in, Stdout: w})
		w.Close()
		out.Want("ready")
		syscall.Kill(parent.Pid(), syscall.SIGKILL)
		out.Want("terminated")
		if extra := out.Rest(); len(extra) > 0 { // ends when the child has
			t.Errorf("further signals: %q", extra)
		}
	}
}

// No child outlives its supervisor, at whatever instant of the start the supervisor is killed.
// A child that did would hold a pipe open.
func TestParentDeathDuringStart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const rounds = 30
	started, turns := 0, 1000
	for range rounds {
		alive, held := testenv.Report(t)
		steps, w := testenv.Report(t)
		argv, env := testenv.Self("parent", testenv.Shell("echo up; exec sleep 1000")...)
		parent := start(t, Command{Args: argv, Env: env, Stdout: held, Stderr: w})
		held.Close()
		w.Close()
		steps.Want("starting")
		for range random.IntN(2 * turns) {
			runtime.Gosched()
		}
		syscall.Kill(parent.Pid(), syscall.SIGKILL)
		data, err := io.ReadAll(alive.File)
		if err != nil {
			t.Fatalf("a child lives: read %q: %v", data, err)
		}
		if len(data) > 0 { // the next one is killed earlier: so all are about the end of a start
			started++
			turns = max(1, turns/2)
		} else {
			turns *= 2
		}
	}
	if started == 0 || started == rounds {
		t.Errorf("%d children started in %d rounds: no KILL came about the end of a start", started, rounds)
	}
}

// The parent-death signal is bound to a thread. The thread of the caller may end without a
// signal to the child.
func TestCallersThreadMayEnd(t *testing.T) {
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	out, w := testenv.Report(t)
	argv, env := testenv.Self("signals")
	started := make(chan *Process)
	thread := make(chan int, 1)
	var begin func()
	begin = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			go begin() // on another one: the main thread never ends
			return
		}
		thread <- syscall.Gettid()
		child, err := Start(Command{Args: argv, Env: env, Stdin: in, Stdout: w, ParentDeath: syscall.SIGUSR2})
		if err != nil {
			t.Error(err)
		}
		started <- child
	}
	go begin()
	tid := <-thread
	child := <-started
	if child == nil {
		t.FailNow()
	}
	t.Cleanup(func() { child.Stop(syscall.SIGKILL, 0) })
	in.Close()
	w.Close()
	out.Want("ready")
	for {
		stat, err := os.ReadFile(filepath.Join("/proc/self/task", strconv.Itoa(tid), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break // nobody tells of a thread's end
		}
		runtime.Gosched()
	}
	child.Signal(syscall.SIGUSR1)
	out.Want("user defined signal 1")
}
