// Package testenv has helpers for the tests of trap and of the packages below it: processes in
// modes of the test binary, their reports, and bounds on every wait.
//
// If a test makes no step for [Patience], a goroutine of [Main] shows where it hangs, kills the
// processes that the tests started, and ends the run.
package testenv

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/sys"
)

// ModeName is the variable that tells a process of the test binary its mode.
const ModeName = "TRAP_TEST_MODE"

// Main runs the tests. The test binary is also every process that the tests need:
// with a mode in its environment it does what the mode says instead.
func Main(m *testing.M, modes map[string]func(args []string) int) {
	if mode := os.Getenv(ModeName); mode != "" {
		os.Unsetenv(ModeName)
		os.Exit(modes[mode](os.Args[1:]))
	}
	step()
	go watch()
	os.Exit(m.Run())
}

// Self returns the command line and the environment of this binary in a mode.
func Self(mode string, args ...string) (argv, env []string) {
	step()
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// The race detector would let every process linger for a second.
	return append([]string{path}, args...), append(os.Environ(), ModeName+"="+mode, "GORACE=atexit_sleep_ms=0")
}

// Shell returns a command line of the system's shell.
func Shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// Groups begins a script of [Shell] that calls groups PID: it sets state, pgid (the group of a
// process) and tpgid (the foreground group of its terminal). Linux needs no ps(1) for that.
const Groups = `groups() {
	if test -r /proc/$1/stat; then
		read -r _ _ state _ pgid _ _ tpgid _ </proc/$1/stat # no name here has a space
	else
		state=$(ps -o stat= -p $1) pgid=$(($(ps -o pgid= -p $1))) tpgid=$(($(ps -o tpgid= -p $1)))
	fi
}
`

// Start starts a process in a group of its own, which is killed at the end of the test. A nil
// file is /dev/null.
func Start(t *testing.T, argv, env []string, stdin, stdout, stderr *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Setpgid: true}
	if stdin != nil { // a nil *os.File would be a reader
		cmd.Stdin = stdin
	}
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	Started(cmd.Process.Pid)
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	return cmd
}

// Lines reads a process's report line by line.
type Lines struct {
	File    *os.File
	t       *testing.T
	scanner *bufio.Scanner
}

// Report returns a pipe: l reads the lines that are written to w.
func Report(t *testing.T) (l *Lines, w *os.File) {
	t.Helper()
	step()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return &Lines{r, t, bufio.NewScanner(r)}, w
}

// Next returns the next line. The test fails if there is none.
func (l *Lines) Next() string {
	l.t.Helper()
	Bound(l.File)
	if !l.scanner.Scan() {
		if errors.Is(l.scanner.Err(), os.ErrDeadlineExceeded) {
			RanOut()
		}
		l.t.Fatalf("no further line: %v", errors.Join(l.scanner.Err(), io.EOF))
	}
	return l.scanner.Text()
}

// Want reads lines. The test fails unless they are wants.
func (l *Lines) Want(wants ...string) {
	l.t.Helper()
	for _, want := range wants {
		if got := l.Next(); got != want {
			l.t.Fatalf("line %q, want %q", got, want)
		}
	}
}

// Rest reads until every process that could write has closed its end.
func (l *Lines) Rest() []string {
	l.t.Helper()
	Bound(l.File)
	var all []string
	for l.scanner.Scan() {
		all = append(all, l.scanner.Text())
	}
	if err := l.scanner.Err(); err != nil {
		RanOut()
		l.t.Fatal(err)
	}
	return all
}

// Bound makes the next reads of f fail in the end instead of blocking forever.
func Bound(f *os.File) error {
	step()
	return f.SetReadDeadline(time.Now().Add(patience()))
}

// Receive receives a value. The test fails if none comes.
func Receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	step()
	select {
	case v := <-c:
		return v
	case <-time.After(patience()):
		RanOut()
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// AwaitGone waits until a process has ended. It need not be a child.
func AwaitGone(t *testing.T, pid int) {
	t.Helper()
	step()
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	if err := sys.AwaitExit(ctx, pid, func() bool { return true }, time.Millisecond); err != nil {
		RanOut()
		t.Fatalf("process %d lives: %v", pid, err)
	}
}

// Contains fails the test unless the text has all the parts.
func Contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

// Atoi parses a number that a process reported.
func Atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
