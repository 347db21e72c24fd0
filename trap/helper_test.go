package trap

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is also every process that the tests need: with a mode in its
// environment it does what the mode says instead of running tests.
const modeName = "TRAP_TEST_MODE"

var modes = make(map[string]func(args []string) int)

func init() {
	maps.Copy(modes, map[string]func([]string) int{
		"conts":   contsMode,
		"daemon":  daemonMode,
		"die":     dieMode,
		"events":  eventsMode,
		"exited":  exitedMode,
		"leader":  leaderMode,
		"mover":   moverMode,
		"orphan":  orphanMode,
		"pipe":    pipeMode,
		"shell":   shellMode,
		"signals": signalsMode,
		"starter": starterMode,
		"wrapper": wrapperMode,
	})
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeName); mode != "" {
		os.Unsetenv(modeName)
		os.Exit(modes[mode](os.Args[1:]))
	}
	os.Exit(m.Run())
}

// self is the command line and the environment of this binary in a mode.
func self(mode string, args ...string) (argv, env []string) {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// The race detector would let every process linger for a second.
	return append([]string{path}, args...), append(os.Environ(), modeName+"="+mode, "GORACE=atexit_sleep_ms=0")
}

// patience is far above what any step takes on the slowest machine; it is only
// ever waited for in full by a test that fails.
const patience = 2 * time.Minute

// lines reads a process's report line by line.
type lines struct {
	t       *testing.T
	f       *os.File
	scanner *bufio.Scanner
}

// report returns a pipe: what is written to w is read by the lines.
func report(t *testing.T) (l *lines, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	r.SetReadDeadline(time.Now().Add(patience))
	return &lines{t, r, bufio.NewScanner(r)}, w
}

func (l *lines) next() string {
	l.t.Helper()
	if !l.scanner.Scan() {
		l.t.Fatalf("no further line: %v", errors.Join(l.scanner.Err(), io.EOF))
	}
	return l.scanner.Text()
}

func (l *lines) want(wants ...string) {
	l.t.Helper()
	for _, want := range wants {
		if got := l.next(); got != want {
			l.t.Fatalf("line %q, want %q", got, want)
		}
	}
}

// rest reads until everybody who could write has closed.
func (l *lines) rest() []string {
	l.t.Helper()
	var all []string
	for l.scanner.Scan() {
		all = append(all, l.scanner.Text())
	}
	if err := l.scanner.Err(); err != nil {
		l.t.Fatal(err)
	}
	return all
}

// start starts a command and kills its group at the end of the test.
func start(t *testing.T, c Command) *Child {
	t.Helper()
	child, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Kill() })
	return child
}

// shell is a command line of the system's shell.
func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// wait is Wait that fails instead of blocking forever.
func wait(t *testing.T, c *Child) Status {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the child did not end")
	}
	return c.Wait()
}

// awaitGone waits until a process has ended that need not be a child.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := WaitExit(ctx, pid); err != nil {
		t.Fatalf("process %d lives: %v", pid, err)
	}
}

// signalsMode reports every signal that it gets, and ends by TERM or at the end
// of its input.
func signalsMode([]string) int {
	return reportSignals("", func() {})
}

// reportSignals listens, calls ready, and writes a line for each signal.
func reportSignals(name string, ready func()) int {
	got := make(chan os.Signal, 64)
	signal.Notify(got, Signals()...)
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

// wrapperMode is the program of the package comment: it runs a command, forwards
// signals, and ends as the command ended. SIGINT stops it, with much patience.
func wrapperMode(args []string) int {
	chain := NewChain(Signals()...)
	child, err := Start(Command{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, ParentDeath: syscall.SIGKILL})
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 125
	}
	chain.OnSignal(func(e Event) error {
		if e.Signal == syscall.SIGINT {
			go child.Stop(syscall.SIGINT, time.Hour)
			return nil
		}
		return child.Signal(e.Signal)
	})
	status := child.Wait()
	chain.Exit(status.ExitCode())
	if status.Terminal && (status.Signal == syscall.SIGINT || status.Signal == syscall.SIGQUIT) {
		Die(status.Signal)
	}
	return status.ExitCode()
}

// contains fails the test unless the text has all the parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}
