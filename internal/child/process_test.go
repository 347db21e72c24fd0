package child

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/sys"
	"github.com/leasectl/leasectl/internal/testenv"
)

// All 256 exit codes pass exactly.
func TestEveryExitCode(t *testing.T) {
	for code := range 256 {
		got := wait(t, start(t, Command{Args: testenv.Shell("exit " + strconv.Itoa(code))}))
		if got.Code != code || got.Signal != 0 || got.ExitCode() != code {
			t.Errorf("exit %d: %+v", code, got)
		}
	}
}

// All signals that end a process pass exactly.
func TestEveryFatalSignal(t *testing.T) {
	harmless := []syscall.Signal{
		syscall.SIGCHLD, syscall.SIGURG, syscall.SIGWINCH, syscall.SIGCONT,
		syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	}
	if runtime.GOOS == "linux" {
		// The C library keeps them for its threads (nptl(7)), and may have
		// them blocked in the thread of a cgo build that starts the child.
		harmless = append(harmless, 32, 33)
	}
	last := syscall.Signal(64)
	if runtime.GOOS == "darwin" {
		harmless = append(harmless, 29) // SIGINFO
		harmless = append(harmless, syscall.SIGIO)
		last = 31
	}
	for sig := syscall.Signal(1); sig <= last; sig++ {
		if slices.Contains(harmless, sig) || signal.Ignored(sig) { // as under nohup
			continue
		}
		got := wait(t, start(t, Command{Args: testenv.Shell("ulimit -c 0; kill -" + strconv.Itoa(int(sig)) + " $$")}))
		if got.Signal != sig || got.ExitCode() != 128+int(sig) {
			t.Errorf("signal %d: %+v", sig, got)
		}
	}
}

// leaderMode has a grandchild in its group; both report signals.
func leaderMode(args []string) int {
	if len(args) > 0 {
		return reportSignals("grandchild ", func() {})
	}
	return reportSignals("leader ", func() {
		argv, env := testenv.Self("leader", "grandchild")
		attr := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}}
		if _, _, err := syscall.StartProcess(argv[0], argv, attr); err != nil {
			panic(err)
		}
	})
}

// A signal reaches every process of the group, each exactly once.
func TestSignalReachesTheGroupOnce(t *testing.T) {
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w := testenv.Report(t)
	argv, env := testenv.Self("leader")
	child := start(t, Command{Args: argv, Env: env, Stdin: in, Stdout: w})
	in.Close()
	w.Close()
	both := func(what string) []string { return []string{"grandchild " + what, "leader " + what} }
	two := func() []string {
		got := []string{out.Next(), out.Next()}
		slices.Sort(got)
		return got
	}
	if got := two(); !slices.Equal(got, both("ready")) {
		t.Fatalf("got %q", got)
	}
	for _, sig := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	} {
		for range 5 {
			if err := child.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if got := two(); !slices.Equal(got, both(sig.String())) {
				t.Fatalf("%v: got %q", sig, got)
			}
		}
	}
	inW.Close() // ends both
	if extra := out.Rest(); len(extra) > 0 {
		t.Errorf("further signals: %q", extra)
	}
	wait(t, child)
}

// A process that daemonizes or keeps the child's descriptors open does not keep Wait from
// returning. It is left alone when the child has ended by itself.
func TestWaitIsForTheChildAlone(t *testing.T) {
	for name, script := range map[string]string{
		"in the group":  `sleep 1000 & echo $!; exit 3`,
		"daemonized":    `setsid sleep 1000 & echo $!; exit 3`,
		"closed output": `sleep 1000 & echo $!; exec <&- >&- 2>&-; exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			out, w := testenv.Report(t)
			child := start(t, Command{Args: testenv.Shell(script), Stdout: w, Stderr: w})
			left := testenv.Atoi(t, out.Next())
			defer syscall.Kill(left, syscall.SIGKILL)
			if s := wait(t, child); s.Code != 3 || s.Signal != 0 {
				t.Errorf("ended with %+v", s)
			}
			child.Stop(syscall.SIGTERM, 0)
			child.Stop(syscall.SIGKILL, 0)
			if s := wait(t, child); s.Code != 3 {
				t.Errorf("stop after the end: %+v", s)
			}
			if err := child.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("signal after the end: %v, want os.ErrProcessDone", err)
			}
			if sys.Gone(left) {
				t.Error("what the child left behind was killed")
			}
		})
	}
}

// In whatever order signals, stops and the child's own end come, no caller blocks, and all see
// the same end.
func TestManyCallersAtOnce(t *testing.T) {
	for range 20 {
		child := start(t, Command{Args: testenv.Shell("exit 5")})
		statuses := make([]Status, 6)
		var calls sync.WaitGroup
		for i := range statuses {
			calls.Go(func() {
				child.Signal(syscall.SIGWINCH)
				switch i % 3 {
				case 1:
					child.Stop(syscall.SIGTERM, time.Hour)
				case 2:
					child.Stop(syscall.SIGKILL, 0)
				}
				statuses[i] = child.Wait()
			})
		}
		calls.Wait()
		for _, s := range statuses {
			if s != statuses[0] || s.Code != 5 && s.Signal != syscall.SIGTERM && s.Signal != syscall.SIGKILL {
				t.Fatalf("ends %+v", statuses)
			}
		}
	}
}

// A child that is stopped without a terminal stays stopped, stops no other process, and can be
// continued.
func TestStoppedWithoutTerminal(t *testing.T) {
	child, out := startHearing(t)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTTIN} {
		child.Signal(sig)
		child.Signal(syscall.SIGUSR1)
		child.Signal(syscall.SIGCONT)
		out.Want("user defined signal 1")
	}
	child.Signal(syscall.SIGTERM)
	if s := wait(t, child); s.ExitCode() != 0 {
		t.Errorf("ended with %v", s)
	}
}
