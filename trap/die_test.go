package trap

import (
	"syscall"
	"testing"
)

// dieMode dies of a signal that a chain listens to.
func dieMode(args []string) int {
	NewChain(Signals()...)
	sig := syscall.Signal(0)
	for _, digit := range args[0] {
		sig = sig*10 + syscall.Signal(digit-'0')
	}
	Die(sig)
	return 1
}

// Die is a death by that very signal, without a core, although a chain caught
// it before and the Go runtime has its own ideas about SIGQUIT.
func TestDie(t *testing.T) {
	for _, sig := range []syscall.Signal{
		syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL,
		syscall.SIGUSR1, syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGPIPE,
	} {
		out, w := report(t)
		argv, env := self("die", itoa(int(sig)))
		child := start(t, Command{Args: argv, Env: env, Stderr: w})
		w.Close()
		if s := wait(t, child); s.Signal != sig || s.CoreDump {
			t.Errorf("died of %+v, want %v", s, sig)
		}
		if trace := out.rest(); len(trace) > 0 {
			t.Errorf("%v: wrote %q", sig, trace)
		}
	}
}

// A signal that does not end a process still ends Die.
func TestDieOfAHarmlessSignal(t *testing.T) {
	argv, env := self("die", itoa(int(syscall.SIGWINCH)))
	if s := wait(t, start(t, Command{Args: argv, Env: env})); s.ExitCode() != 128+int(syscall.SIGWINCH) || s.Signal != 0 {
		t.Errorf("ended with %+v", s)
	}
}
