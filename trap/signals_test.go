package trap

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

// Every signal that a wrapper forwards can be caught by Go. The signals that must be left alone
// are not among them.
func TestSignals(t *testing.T) {
	signals := append(Signals(), RareSignals()...)
	for _, sig := range []syscall.Signal{
		syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPROF, syscall.SIGPIPE,
		syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS,
		syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGXFSZ,
	} {
		if slices.Contains(signals, os.Signal(sig)) {
			t.Errorf("%v is forwarded", sig)
		}
	}
	got := make(chan os.Signal, 1)
	for i, sig := range signals {
		if slices.Contains(signals[:i], sig) {
			t.Errorf("%v is there twice", sig)
		}
		signal.Notify(got, sig)
		raise(t, sig.(syscall.Signal)) // fatal to the test if it is not caught
		if s := testenv.Receive(t, got); s != sig {
			t.Errorf("caught %v, want %v", s, sig)
		}
		signal.Stop(got)
	}
	if runtime.GOOS == "linux" && !slices.Contains(signals, os.Signal(syscall.Signal(64))) {
		t.Error("SIGRTMAX is not forwarded")
	}
}

// eventsMode reports what a chain hears.
func eventsMode([]string) int {
	c := NewChain(Signals()...)
	ended := make(chan struct{})
	c.OnSignal(func(e Event) error {
		os.Stdout.WriteString(e.String() + "\n")
		if e.Signal == syscall.SIGUSR1 {
			close(ended)
		}
		return nil
	})
	os.Stdout.WriteString("ready\n")
	<-ended
	c.Exit(0)
	return 0
}

// Signals that are inherited as ignored stay ignored for the program. (For the
// command that it runs, see package child.)
func TestInheritedIgnoredSignals(t *testing.T) {
	out, w := testenv.Report(t)
	events, env := testenv.Self("events")
	argv := append(testenv.Shell(`trap '' HUP INT TSTP; exec "$0" "$@"`), events...)
	process := testenv.Start(t, argv, env, nil, w, nil)
	w.Close()
	out.Want("ready")
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1} {
		if err := process.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.Rest(); !slices.Equal(got, []string{"user defined signal 1"}) {
		t.Errorf("heard %q, want SIGUSR1 alone", got)
	}
}
