package trap

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

// dieMode dies by a signal that a chain listens to.
func dieMode(args []string) int {
	NewChain(Signals()...)
	sig, _ := strconv.Atoi(args[0])
	Die(syscall.Signal(sig))
	return 1
}

// Die ends the process by that very signal, without a core, although a chain caught it before
// and the Go runtime handles SIGQUIT in its own way.
func TestDie(t *testing.T) {
	for _, sig := range []syscall.Signal{
		syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL,
		syscall.SIGUSR1, syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGPIPE,
	} {
		out, w := testenv.Report(t)
		argv, env := testenv.Self("die", strconv.Itoa(int(sig)))
		process := testenv.Start(t, argv, env, nil, nil, w)
		w.Close()
		if s := wait(t, process); !s.Signaled() || s.Signal() != sig || s.CoreDump() {
			t.Errorf("died of %+v, want %v", s, sig)
		}
		if trace := out.Rest(); len(trace) > 0 {
			t.Errorf("%v: wrote %q", sig, trace)
		}
	}
}

// With a signal that does not end a process, Die exits all the same.
func TestDieOfAHarmlessSignal(t *testing.T) {
	argv, env := testenv.Self("die", strconv.Itoa(int(syscall.SIGWINCH)))
	if s := wait(t, testenv.Start(t, argv, env, nil, nil, nil)); s.ExitStatus() != 128+int(syscall.SIGWINCH) {
		t.Errorf("ended with %+v", s)
	}
}
