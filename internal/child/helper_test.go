package child

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/testenv"
	"github.com/leasectl/leasectl/trap"
)

var modes = map[string]func(args []string) int{
	"conts":   contsMode,
	"guarded": guardedMode,
	"leader":  leaderMode,
	"leaver":  leaverMode,
	"mover":   moverMode,
	"orphan":  orphanMode,
	"session": sessionMode,
	"shell":   shellMode,
	"signals": signalsMode,
	"wrapper": wrapperMode,
}

func TestMain(m *testing.M) { testenv.Main(m, modes) }

// start starts a command and kills its group at the end of the test.
func start(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Started(p.Pid())
	t.Cleanup(func() {
		p.Stop(syscall.SIGKILL, 0)
		if t.Failed() {
			syscall.Kill(-p.Pid(), syscall.SIGKILL) // for a process that a broken Stop has left
			return
		}
		wait(t, p)
	})
	return p
}

// startHearing starts a child that reports the signals that it hears, and waits until it
// listens. The child's input, whose end would end it, stays open until the end of the test.
func startHearing(t *testing.T) (*Process, *testenv.Lines) {
	t.Helper()
	out, w := testenv.Report(t)
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inW.Close() })
	argv, env := testenv.Self("signals")
	child := start(t, Command{Args: argv, Env: env, Stdin: in, Stdout: w})
	in.Close()
	w.Close()
	out.Want("ready")
	return child, out
}

// wait is Wait that fails instead of blocking forever.
func wait(t *testing.T, p *Process) Status {
	t.Helper()
	testenv.Receive(t, p.Done())
	return p.Wait()
}

// signalsMode reports every signal that it gets, and ends by TERM or at the end
// of its input.
func signalsMode([]string) int {
	return reportSignals("", func() {})
}

// reportSignals listens, calls ready, and writes a line for each signal.
func reportSignals(name string, ready func()) int {
	got := make(chan os.Signal, 64)
	signal.Notify(got, trap.Signals()...)
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	ready()
	os.Stdout.WriteString(name + "ready\n")
	for {
		select {
		case sig := <-got:
			os.Stdout.WriteString(name + sig.String() + "\n")
			if sig == syscall.SIGTERM && name == "" {
				return 0
			}
		case <-ended:
			return 0
		}
	}
}

// wrapperMode is the program of the package comment: it runs a command, forwards signals, and
// ends as the command ended. SIGINT stops the command with a long grace period.
func wrapperMode(args []string) int {
	chain := trap.NewChain(trap.Signals()...)
	p, err := Start(Command{Args: args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, ParentDeath: syscall.SIGKILL})
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 125
	}
	chain.OnSignal(func(e trap.Event) error {
		if e.Signal == syscall.SIGINT {
			p.Stop(syscall.SIGINT, time.Hour)
			return nil
		}
		return p.Signal(e.Signal)
	})
	status := p.Wait()
	chain.Exit(status.ExitCode())
	if status.Terminal && (status.Signal == syscall.SIGINT || status.Signal == syscall.SIGQUIT) {
		if status.Alone {
			syscall.Kill(0, status.Signal)
		}
		trap.Die(status.Signal)
	}
	return status.ExitCode()
}
