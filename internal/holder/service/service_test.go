package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A line that matches announces what its groups say.
func TestVariables(t *testing.T) {
	reattach := `TF_REATTACH_PROVIDERS='{"x/toy":{"Addr":{"String":"/tmp/a b"}}}'`
	for _, tt := range []struct {
		ready, line string
		want        []string
		no          bool // the line does not say that it is ready
	}{
		{ready: DefaultReady, line: "\t" + reattach, want: []string{strings.ReplaceAll(reattach, "'", "")}},
		{ready: DefaultReady, line: "A=b", want: []string{"A=b"}},
		{ready: DefaultReady, line: `A_1="b c" `, want: []string{"A_1=b c"}},
		{ready: DefaultReady, line: "A=", want: []string{"A="}},
		{ready: DefaultReady, line: "A='", want: []string{"A='"}},
		{ready: DefaultReady, line: "a=b", no: true},
		{ready: DefaultReady, line: "x A=b", no: true},
		{ready: DefaultReady, line: "LEASECTL_NAMES=x"},
		{ready: DefaultReady, line: "LEASED_RESOURCE=x"},
		{ready: DefaultReady, line: "A=b\x00c"},
		{ready: `on (?P<HOST>.*):(?P<PORT>\d+)`, line: "listening on h:80", want: []string{"HOST=h", "PORT=80"}},
		{ready: `ready`, line: "we are ready"},
		{ready: `ready`, line: "no", no: true},
	} {
		got, is := Variables(regexp.MustCompile(tt.ready), tt.line)
		if !slices.Equal(got, tt.want) || is == tt.no {
			t.Errorf("%q in %q: %q, %t", tt.ready, tt.line, got, is)
		}
	}
	for expression, fits := range map[string]bool{
		DefaultReady: true, "ready": true, "(a)(b)": true, "(?P<A>b)": true, "(?:a|b)": true,
		"(a)": false, "(a)(b)(c)": false, "(?P<A>b)(c)": false, "(": false,
	} {
		if err := Check(expression); (err == nil) != fits {
			t.Errorf("Check(%q): %v", expression, err)
		}
	}
}

// begin starts a service, which is stopped at the end of the test.
func begin(t *testing.T, command string, ready string) (s *Service, log string) {
	t.Helper()
	dir := t.TempDir()
	guard, err := os.Create(filepath.Join(dir, "guard"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Command: command, Dir: dir, Env: os.Environ(), Log: filepath.Join(dir, "log"), Guard: guard}
	if ready != "" {
		o.Ready = regexp.MustCompile(ready)
	}
	if s, err = Start(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(0) })
	return s, o.Log
}

// soon receives from c. Only a failing test waits so long.
func soon(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal("waited in vain for it to be " + what)
	}
}

// The last value of a variable counts, also if it comes within a second after the first line.
func TestReady(t *testing.T) {
	s, log := begin(t, `echo start; echo A=1; echo A=2; echo B=3; echo err >&2; exec sleep 600`, DefaultReady)
	soon(t, "ready", s.Ready())
	if got := s.Variables(); !slices.Equal(got, []string{"A=2", "B=3"}) {
		t.Errorf("variables %q", got)
	}
	if lines := s.LastLines(); len(lines) != 5 || !slices.Contains(lines, "err") {
		t.Errorf("last lines %q", lines)
	}
	if last := LastLine(log); last != "B=3" && last != "err" {
		t.Errorf("last line %q", last)
	}
	s.Stop(time.Minute)
	if got := s.Ended(); got != "was ended by SIGTERM" {
		t.Error(got)
	}
}

// A service that ends within a second after it said that it is ready never was, even if it printed
// thousands of such lines.
func TestNeverReady(t *testing.T) {
	for _, command := range []string{"echo A=b; exit 3", "yes A=b | head -n 20000; exit 3", "exit 3"} {
		s, _ := begin(t, command, DefaultReady)
		soon(t, "over", s.Done())
		select {
		case <-s.Ready():
			t.Errorf("%s: it was ready", command)
		default:
		}
		if got := s.Ended(); got != "ended with exit code 3" {
			t.Errorf("%s: it %s", command, got)
		}
	}
}

// A process that has left the group, and holds the output, does not keep the service from ending.
func TestHeldOutput(t *testing.T) {
	s, log := begin(t, `unset LC_ALL; exec bash -c 'set -m; sh -c "echo \$\$ >pid; exec sleep 600" & until test -s pid; do sleep 0.01; done; echo bye'`, "")
	soon(t, "over", s.Done())
	if LastLine(log) != "bye" {
		t.Errorf("last line %q", LastLine(log))
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(log), "pid"))
	var pid int
	if _, scanErr := fmt.Sscan(string(data), &pid); err != nil || scanErr != nil {
		t.Fatal(err, scanErr)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process that left the group: %v", err)
	}
}

// KillGroup ends a group whose guard is stopped, and so cannot end it, but only if the guard surely
// lives.
func TestKillGroup(t *testing.T) {
	s, _ := begin(t, "trap '' TERM; trap 'echo alive' USR1; echo A=b; while :; do sleep 0.1; done", DefaultReady)
	printed := func(line string) {
		t.Helper()
		for !slices.Contains(s.LastLines(), line) {
			select {
			case <-s.Done():
				t.Fatal("it was killed")
			case <-time.After(time.Millisecond):
			}
		}
	}
	printed("A=b")
	syscall.Kill(-s.Group(), syscall.SIGSTOP)
	sure := false
	guarded := func() (bool, bool) {
		select {
		case <-s.Done():
			return false, true
		default:
			return true, sure
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("bored"))
	if err := KillGroup(ctx, s.Group(), guarded); err == nil || !strings.HasSuffix(err.Error(), "of the service: bored") {
		t.Errorf("with a guard that may be another: %v", err)
	}
	syscall.Kill(-s.Group(), syscall.SIGUSR1)
	syscall.Kill(-s.Group(), syscall.SIGCONT)
	printed("alive")
	syscall.Kill(-s.Group(), syscall.SIGSTOP)
	sure = true
	if err := KillGroup(t.Context(), s.Group(), guarded); err != nil {
		t.Fatal(err)
	}
	if got := s.Ended(); got != "was ended by SIGKILL" {
		t.Error(got)
	}
}

// The log keeps the end of what is printed, within its bound.
func TestBoundedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	o := openOutput(path)
	line := strings.Repeat("x", 99) + "\n"
	for i := range 3 * MaxLog / len(line) {
		o.write([]byte(line))
		if i%1000 == 0 {
			if info, err := os.Stat(path); err != nil || info.Size() > MaxLog {
				t.Fatalf("%v, %d bytes", err, info.Size())
			}
		}
	}
	o.write([]byte("the end\n"))
	o.close()
	data, err := os.ReadFile(path)
	if err != nil || len(data) < MaxLog/2 || !strings.HasSuffix(string(data), "x\nthe end\n") {
		t.Errorf("%v, %d bytes", err, len(data))
	}
	if LastLine(path) != "the end" {
		t.Errorf("last line %q", LastLine(path))
	}
}

// A service goes on although its log cannot be written, and its last lines are known.
func TestNoLog(t *testing.T) {
	o := openOutput(filepath.Join(t.TempDir(), "missing", "log"))
	o.write([]byte("a\n\x1b[1mb\n"))
	o.close()
	if lines := o.lastLines(); !slices.Equal(lines, []string{"a", "[1mb"}) {
		t.Errorf("last lines %q", lines)
	}
}
