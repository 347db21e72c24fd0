package child

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/testenv"
)

// A key that kills the command kills the wrapper by the same signal, so that the shell sees it.
// A key that the command handles does not.
func TestKeysThatKill(t *testing.T) {
	for _, stdout := range []string{"tty", "pipe"} {
		for _, test := range []struct {
			command    []string
			keys, want string
		}{
			{testenv.Shell(echoes), ctrlC, "killed SIGINT job's echo"},
			{testenv.Shell(echoes), ctrlBackslash, "killed SIGQUIT job's echo"},
			{testenv.Shell("stty -echo </dev/tty; " + echoes), ctrlC, "killed SIGINT job's echo"},
			{conts("handles INT"), ctrlC, "exited 9 job's echo"},
		} {
			s := newSession(t, stdout, true, test.command...)
			s.awaitReady(stdout)
			s.typed(test.keys)
			if got := s.reports.Next(); got != test.want {
				t.Errorf("%s, %q: %s, want %s", stdout, test.command, got, test.want)
			}
		}
	}
}

// A key that kills the command ends the script that waits for the wrapper, as if the script
// waited for the command. The script goes on if the command handled the key, or if the signal
// came from another process.
func TestKeysThatKillInAScript(t *testing.T) {
	for _, test := range []struct {
		command    []string
		keys, want string
	}{
		{testenv.Shell(echoes), ctrlC, "killed SIGINT job's echo"},
		{conts("handles INT"), ctrlC, "exited 9 job's echo"},
		{testenv.Shell("echo ready; kill -s INT $PPID; " + echoes), "", "exited 130 job's echo"},
	} {
		s := newSession(t, "script", true, test.command...)
		s.shows("ready")
		s.typed(test.keys)
		if got := s.reports.Next(); got != test.want {
			t.Errorf("%q: %s, want %s", test.command, got, test.want)
		}
	}
}

// After ^Z the shell has a stopped job and a sane terminal; after fg the command
// goes on, reads what is typed, and ends as it would have.
func TestStopAndForeground(t *testing.T) {
	for _, stdout := range []string{"tty", "pipe"} {
		s := newSession(t, stdout, true, testenv.Shell(echoes)...)
		s.awaitReady(stdout)
		for round := range 5 {
			s.typed(fmt.Sprintf("hello %d\n", round))
			if want := fmt.Sprintf("got <hello %d>", round); stdout == "pipe" {
				s.output.Want(want)
			} else {
				s.shows(want)
			}
			if round < 4 { // what comes next is typed for the command, not for the shell
				s.typed(ctrlZ)
				s.reports.Want("stopped SIGTSTP job's echo")
				s.shell("fg")
				s.reports.Want("continued")
			}
		}
		s.typed(ctrlC)
		s.reports.Want("killed SIGINT job's echo")
	}
}

// Before the command has asked for the terminal, ^Z reaches the wrapper, which stops the
// command and then itself.
func TestStopWithTheTerminalElsewhere(t *testing.T) {
	s := newSession(t, "pipe", true, conts("deaf")...)
	s.output.Want("ready")
	for range 5 {
		s.typed(ctrlZ)
		s.reports.Want("stopped SIGTSTP job's echo")
		s.shell("fg")
		s.reports.Want("continued")
		s.output.Want("continued")
	}
	s.typed(ctrlC)
	s.reports.Want("killed SIGINT job's echo")
}

// The command is continued once each time, although the wrapper has two reasons to continue it:
// its own stop is over, and it got SIGCONT. A late second time would undo the next ^Z.
func TestContinuedOnce(t *testing.T) {
	s := newSession(t, "tty", true, conts()...)
	s.shows("ready")
	shown := ""
	const rounds = 20
	for range rounds {
		s.typed(ctrlZ)
		s.reports.Want("stopped SIGTSTP job's echo")
		s.shell("fg")
		s.reports.Want("continued")
		shown += s.shows("continued") + "continued"
		s.typed("hello\n")
		shown += s.shows("got <hello>")
	}
	if n := strings.Count(shown, "continued"); n != rounds {
		t.Errorf("continued %d times, want %d", n, rounds)
	}
}

// A command that changed the terminal's modes finds its modes again when it goes on. While it
// is stopped, the shell has the old modes.
func TestModesFollowTheForeground(t *testing.T) {
	s := newSession(t, "tty", true, testenv.Shell(`stty -echo; kill -s TSTP 0; stty -a; stty echo; exit 4`)...)
	s.reports.Want("stopped SIGTSTP job's echo")
	s.shell("fg")
	s.reports.Want("continued", "exited 4 job's echo")
	s.shows(" -echo ")
}

// A command that exits may have changed the modes on purpose; a command that is killed has not.
func TestModesAtTheEnd(t *testing.T) {
	for script, want := range map[string]string{
		`stty -echo`:                    "exited 0 job's silent",
		`stty -echo; kill -s KILL $$`:   "exited 137 job's echo",
		`stty -echo; kill -s INT $$; :`: "killed SIGINT job's echo",
	} {
		s := newSession(t, "tty", true, testenv.Shell(script)...)
		if got := s.reports.Next(); got != want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

// In the background the command may not read the terminal: the job stops, as any other job
// would, until it is in the foreground.
func TestBackground(t *testing.T) {
	s := newSession(t, "tty", true, testenv.Shell(echoes)...)
	s.shows("ready")
	s.typed(ctrlZ)
	s.reports.Want("stopped SIGTSTP job's echo")
	for range 3 {
		s.shell("bg")
		s.reports.Want("continued", "stopped SIGTTIN shell's echo")
	}
	s.shell("fg")
	s.reports.Want("continued")
	s.typed("hello\n")
	s.shows("got <hello>")
}

// On a terminal the command's group is the foreground before its first
// instruction.
func TestTerminalAtOnce(t *testing.T) {
	s := newSession(t, "tty", true, testenv.Shell(testenv.Groups+`groups $$; echo "<$tpgid $pgid>"`)...)
	s.shows("<")
	if groups := strings.Fields(s.shows(">")); len(groups) != 2 || groups[0] != groups[1] {
		t.Errorf("the foreground and the command's own group are %q", groups)
	}
}

// If standard output is a pipe, its reader may want the terminal. So the terminal stays where
// it is until the command asks for it.
func TestTerminalOnDemand(t *testing.T) {
	s := newSession(t, "pipe", true, testenv.Shell(testenv.Groups+`
		groups $$; echo $tpgid; echo $pgid; groups $PPID; echo $pgid
		read x; echo "got <$x>"
		groups $$; echo $tpgid; exec sleep 1000`)...)
	field := func() string { return strings.TrimSpace(s.output.Next()) }
	foreground, own, wrapper := field(), field(), field()
	if foreground != wrapper || own == wrapper {
		t.Errorf("group %s, wrapper's %s: the foreground is %s, want the wrapper's", own, wrapper, foreground)
	}
	s.typed("hello\n")
	s.output.Want("got <hello>")
	if foreground := field(); foreground != own {
		t.Errorf("the foreground is %s after a read, want the command's %s", foreground, own)
	}
	s.typed(ctrlC)
	s.reports.Want("killed SIGINT job's echo")
}

// A command that is being stopped may still ask whether it should.
func TestTerminalWhileStopping(t *testing.T) {
	s := newSession(t, "pipe", true, conts("deaf", "handles INT", "asks")...)
	s.output.Want("ready")
	s.typed(ctrlC)
	s.typed("yes\n")
	s.reports.Want("exited 9 job's echo")
}

// Where no process could continue a stopped job, ^Z does nothing: the only process of a
// container or of an ssh session would stay stopped for good.
func TestStopWithoutShell(t *testing.T) {
	s := newSession(t, "tty", false, testenv.Shell(echoes)...)
	s.shows("ready")
	for range 3 {
		s.typed(ctrlZ)
		s.typed("hello\n")
		s.shows("got <hello>")
	}
	s.typed(ctrlC)
	ended := make(chan error, 1)
	go func() { ended <- s.cmd.Wait() }()
	if err := testenv.Receive(t, ended); err == nil || err.Error() != "signal: interrupt" {
		t.Errorf("ended with %v, want signal: interrupt", err)
	}
}

// A command that cannot be started leaves the terminal with the wrapper.
func TestTerminalAfterFailedStart(t *testing.T) {
	s := newSession(t, "tty", true, "/dev/null")
	s.reports.Want("exited 125 job's echo")
}

// A command that stops itself with SIGSTOP leaves the terminal to us, so that keys can end it.
func TestStopOfItself(t *testing.T) {
	s := newSession(t, "tty", true, testenv.Shell(`echo pid $PPID end; kill -s STOP $$; `+echoes)...)
	s.shows("pid ")
	wrapper := testenv.Atoi(t, strings.TrimSpace(s.shows(" end")))
	for end := time.Now().Add(time.Minute); foreground(int(s.terminal.Fd())) != wrapper; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the terminal stays with the command that is stopped")
		}
	}
	s.typed(ctrlC)
	s.reports.Want("killed SIGINT job's echo")
}

// SIGSTOP from elsewhere stops the command alone: its supervisor goes on, and so
// does the command when it is continued.
func TestStopFromElsewhere(t *testing.T) {
	s := newSession(t, "tty", true, testenv.Shell(`echo pid $$ $PPID end; `+echoes)...)
	s.shows("pid ")
	var pid, wrapper int
	if _, err := fmt.Sscan(s.shows(" end"), &pid, &wrapper); err != nil {
		t.Fatal(err)
	}
	s.shows("ready")
	syscall.Kill(pid, syscall.SIGSTOP)
	syscall.Kill(wrapper, syscall.SIGTERM)
	syscall.Kill(pid, syscall.SIGCONT)
	s.reports.Want("exited 143 job's echo")
}
