package trap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// shellMode is what a shell with job control is to a job: it starts the rest of
// the arguments as a foreground job, reports on descriptor 4 how the job stops
// and ends, and takes fg and bg from descriptor 3. The job's standard output is
// descriptor 5 for a "pipe". The wrapper is the job, or for a "script" a part of
// it, beside the script that runs it.
func shellMode(args []string) int {
	commands := bufio.NewScanner(os.NewFile(3, "commands"))
	files := []uintptr{0, 1, 2}
	argv, env := self("wrapper", args[1:]...)
	switch args[0] {
	case "pipe":
		files[1] = 5
	case "script":
		argv = append(shell(`"$0" "$@"; exit $?`), argv...)
	}
	job, _, err := syscall.StartProcess(argv[0], argv, &syscall.ProcAttr{
		Env: env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0},
	})
	if err != nil {
		panic(err)
	}
	unix.CloseOnExec(5)
	unix.Close(5)
	for {
		var ws unix.WaitStatus
		if err := retryInterrupted(func() error {
			_, err := unix.Wait4(job, &ws, unix.WUNTRACED, nil)
			return err
		}); err != nil {
			panic(err)
		}
		syscall.Write(4, []byte(describeJob(job, ws)+"\n"))
		if !ws.Stopped() {
			return 0
		}
		withoutTTOU(func() { setForeground(0, syscall.Getpgrp()) })
		if !commands.Scan() {
			return 1
		}
		if commands.Text() == "fg" {
			withoutTTOU(func() { setForeground(0, job) })
		}
		syscall.Kill(-job, syscall.SIGCONT)
		syscall.Write(4, []byte("continued\n"))
	}
}

// describeJob says what became of the job, whose the terminal is, and whether it
// echoes.
func describeJob(job int, ws unix.WaitStatus) string {
	what := "exited " + itoa(ws.ExitStatus())
	switch {
	case ws.Stopped():
		what = "stopped " + unix.SignalName(ws.StopSignal())
	case ws.Signaled():
		what = "killed " + unix.SignalName(ws.Signal())
	}
	whose := "another's"
	switch foreground(0) {
	case job:
		whose = "job's"
	case syscall.Getpgrp():
		whose = "shell's"
	}
	echo := "silent"
	if modes, err := unix.IoctlGetTermios(0, getModes); err == nil && modes.Lflag&unix.ECHO != 0 {
		echo = "echo"
	}
	return fmt.Sprintf("%s %s %s", what, whose, echo)
}

// session is a terminal, and a shell on it that runs one job.
type session struct {
	t        *testing.T
	terminal *os.File
	seen     strings.Builder // what the terminal shows, as far as it was read
	commands *os.File
	reports  *lines
	output   *lines // of the job, if it is not the terminal
	cmd      *exec.Cmd
}

// newSession runs the command under the wrapper on a terminal. stdout is "tty",
// "pipe" or "script", which shellMode explains. Without a shell the wrapper is the session's leader itself.
func newSession(t *testing.T, stdout string, withShell bool, command ...string) *session {
	t.Helper()
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	if err := terminal.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	commands, commandsW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer commands.Close()
	s := &session{t: t, terminal: terminal, commands: commandsW}
	argv, env := self("wrapper", command...)
	if withShell {
		argv, env = self("shell", append([]string{stdout}, command...)...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	var reportsW, outputW *os.File
	s.reports, reportsW = report(t)
	s.output, outputW = report(t)
	cmd.ExtraFiles = []*os.File{commands, reportsW, outputW}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	reportsW.Close()
	outputW.Close()
	t.Cleanup(func() {
		commandsW.Close()
		terminal.Close() // hangs up whatever is left on it
		cmd.Process.Kill()
		cmd.Wait()
	})
	return s
}

// typed sends keys to the terminal.
func (s *session) typed(keys string) {
	s.t.Helper()
	if _, err := s.terminal.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits for a text on the terminal and forgets all up to its end.
func (s *session) shows(text string) (before string) {
	s.t.Helper()
	buf := make([]byte, 4096)
	for {
		if before, after, found := strings.Cut(s.seen.String(), text); found {
			s.seen.Reset()
			s.seen.WriteString(after)
			return before
		}
		n, err := s.terminal.Read(buf)
		s.seen.Write(buf[:n])
		if err != nil {
			s.t.Fatalf("the terminal shows %q, want %q: %v", s.seen.String(), text, err)
		}
	}
}

// shell gives a command to the shell.
func (s *session) shell(command string) {
	s.t.Helper()
	if _, err := io.WriteString(s.commands, command+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

const (
	ctrlC         = "\x03"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// echoes reads lines and says what it got; the prompt is there when it can be
// interrupted.
const echoes = `ulimit -c 0; echo ready; while read x; do echo "got <$x>"; done`

// A key that kills the command kills the wrapper by the same signal, so that the
// shell sees it; one that the command handles is its own business.
func TestKeysThatKill(t *testing.T) {
	for _, stdout := range []string{"tty", "pipe"} {
		for _, test := range []struct {
			command    []string
			keys, want string
		}{
			{shell(echoes), ctrlC, "killed SIGINT job's echo"},
			{shell(echoes), ctrlBackslash, "killed SIGQUIT job's echo"},
			{shell("stty -echo </dev/tty; " + echoes), ctrlC, "killed SIGINT job's echo"},
			{conts("handles INT"), ctrlC, "exited 9 job's echo"},
		} {
			s := newSession(t, stdout, true, test.command...)
			s.awaitReady(stdout)
			s.typed(test.keys)
			if got := s.reports.next(); got != test.want {
				t.Errorf("%s, %q: %s, want %s", stdout, test.command, got, test.want)
			}
		}
	}
}

// awaitReady waits for the command's first line.
func (s *session) awaitReady(stdout string) {
	s.t.Helper()
	if stdout == "pipe" {
		s.output.want("ready")
	} else {
		s.shows("ready")
	}
}

// After ^Z the shell has a stopped job and a sane terminal; after fg the command
// goes on, reads what is typed, and ends as it would have.
func TestStopAndForeground(t *testing.T) {
	for _, stdout := range []string{"tty", "pipe"} {
		s := newSession(t, stdout, true, shell(echoes)...)
		s.awaitReady(stdout)
		for round := range 5 {
			s.typed(fmt.Sprintf("hello %d\n", round))
			if want := fmt.Sprintf("got <hello %d>", round); stdout == "pipe" {
				s.output.want(want)
			} else {
				s.shows(want)
			}
			if round < 4 { // what comes next is typed for the command, not for the shell
				s.typed(ctrlZ)
				s.reports.want("stopped SIGTSTP job's echo")
				s.shell("fg")
				s.reports.want("continued")
			}
		}
		s.typed(ctrlC)
		s.reports.want("killed SIGINT job's echo")
	}
}

// contsMode echoes lines, unless it is "deaf", and says when it is continued. If
// it "handles INT" it exits 9 for one, after a further line if it "asks".
func contsMode(args []string) int {
	continued, interrupted := make(chan os.Signal, 64), make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	if slices.Contains(args, "handles INT") {
		signal.Notify(interrupted, syscall.SIGINT)
	}
	fmt.Println("ready") // before it can be stopped for reading in the background
	read := make(chan string)
	if !slices.Contains(args, "deaf") {
		go func() {
			for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
				read <- scanner.Text()
			}
			close(read)
		}()
	}
	for {
		select {
		case <-continued:
			fmt.Println("continued")
		case <-interrupted:
			if slices.Contains(args, "asks") {
				bufio.NewReader(os.Stdin).ReadString('\n')
			}
			return 9
		case line, ok := <-read:
			if !ok {
				return 0
			}
			fmt.Printf("got <%s>\n", line)
		}
	}
}

// conts is the command line for contsMode in a session, whose own mode is another.
func conts(args ...string) []string {
	argv, _ := self("conts", args...)
	return append([]string{"/usr/bin/env", modeName + "=conts"}, argv...)
}

// ^Z stops the whole job, not the wrapper alone: the shell would wait forever for
// the rest, here a script that waits for the wrapper.
func TestStopOfAScript(t *testing.T) {
	s := newSession(t, "script", true, conts()...)
	s.shows("ready")
	for range 3 {
		s.typed(ctrlZ)
		s.reports.want("stopped SIGTSTP job's echo")
		s.shell("fg")
		s.reports.want("continued")
		s.shows("continued")
	}
	s.typed("\x04") // end of input
	s.reports.want("exited 0 job's echo")
}

// Before the command has asked for the terminal, ^Z comes to the wrapper, which
// stops the command and then itself.
func TestStopWithTheTerminalElsewhere(t *testing.T) {
	s := newSession(t, "pipe", true, conts("deaf")...)
	s.output.want("ready")
	for range 5 {
		s.typed(ctrlZ)
		s.reports.want("stopped SIGTSTP job's echo")
		s.shell("fg")
		s.reports.want("continued")
		s.output.want("continued")
	}
	s.typed(ctrlC)
	s.reports.want("killed SIGINT job's echo")
}

// The command is continued once each time, although the wrapper has two reasons
// to: its own stop is over, and it got SIGCONT. A late second time would undo the
// next ^Z.
func TestContinuedOnce(t *testing.T) {
	s := newSession(t, "tty", true, conts()...)
	s.shows("ready")
	shown := ""
	const rounds = 20
	for range rounds {
		s.typed(ctrlZ)
		s.reports.want("stopped SIGTSTP job's echo")
		s.shell("fg")
		s.reports.want("continued")
		shown += s.shows("continued") + "continued"
		s.typed("hello\n")
		shown += s.shows("got <hello>")
	}
	if n := strings.Count(shown, "continued"); n != rounds {
		t.Errorf("continued %d times, want %d", n, rounds)
	}
}

// A command that changed the terminal's modes finds them changed when it goes
// on, and the shell unchanged while it is stopped.
func TestModesFollowTheForeground(t *testing.T) {
	s := newSession(t, "tty", true, shell(`stty -echo; kill -s TSTP 0; stty -a; stty echo; exit 4`)...)
	s.reports.want("stopped SIGTSTP job's echo")
	s.shell("fg")
	s.reports.want("continued", "exited 4 job's echo")
	s.shows(" -echo ")
}

// A command that exits may have changed the modes on purpose, one that is killed
// has not.
func TestModesAtTheEnd(t *testing.T) {
	for script, want := range map[string]string{
		`stty -echo`:                    "exited 0 job's silent",
		`stty -echo; kill -s KILL $$`:   "exited 137 job's echo",
		`stty -echo; kill -s INT $$; :`: "killed SIGINT job's echo",
	} {
		s := newSession(t, "tty", true, shell(script)...)
		if got := s.reports.next(); got != want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

// In the background the command may not read the terminal: the job stops, as any
// other would, until it is in the foreground.
func TestBackground(t *testing.T) {
	s := newSession(t, "tty", true, shell(echoes)...)
	s.shows("ready")
	s.typed(ctrlZ)
	s.reports.want("stopped SIGTSTP job's echo")
	for range 3 {
		s.shell("bg")
		s.reports.want("continued", "stopped SIGTTIN shell's echo")
	}
	s.shell("fg")
	s.reports.want("continued")
	s.typed("hello\n")
	s.shows("got <hello>")
}

// On a terminal the command's group is the foreground before its first
// instruction.
func TestTerminalAtOnce(t *testing.T) {
	s := newSession(t, "tty", true, shell(`echo "<$(ps -o tpgid= -p $$) $(ps -o pgid= -p $$)>"`)...)
	s.shows("<")
	if groups := strings.Fields(s.shows(">")); len(groups) != 2 || groups[0] != groups[1] {
		t.Errorf("the foreground and the command's own group are %q", groups)
	}
}

// With a pipe as standard output the reader of the pipe may want the terminal,
// so it stays where it is until the command asks for it.
func TestTerminalOnDemand(t *testing.T) {
	s := newSession(t, "pipe", true, shell(`
		ps -o tpgid= -p $$; ps -o pgid= -p $$; ps -o pgid= -p $PPID
		read x; echo "got <$x>"
		ps -o tpgid= -p $$; exec sleep 1000`)...)
	field := func() string { return strings.TrimSpace(s.output.next()) }
	foreground, own, wrapper := field(), field(), field()
	if foreground != wrapper || own == wrapper {
		t.Errorf("group %s, wrapper's %s: the foreground is %s, want the wrapper's", own, wrapper, foreground)
	}
	s.typed("hello\n")
	s.output.want("got <hello>")
	if foreground := field(); foreground != own {
		t.Errorf("the foreground is %s after a read, want the command's %s", foreground, own)
	}
	s.typed(ctrlC)
	s.reports.want("killed SIGINT job's echo")
}

// A command that is being stopped may still ask whether it should.
func TestTerminalWhileStopping(t *testing.T) {
	s := newSession(t, "pipe", true, conts("deaf", "handles INT", "asks")...)
	s.output.want("ready")
	s.typed(ctrlC)
	s.typed("yes\n")
	s.reports.want("exited 9 job's echo")
}

// Where nobody could continue a stopped job, ^Z does nothing: a container's or
// an ssh session's only process would be stuck for good.
func TestStopWithoutShell(t *testing.T) {
	s := newSession(t, "tty", false, shell(echoes)...)
	s.shows("ready")
	for range 3 {
		s.typed(ctrlZ)
		s.typed("hello\n")
		s.shows("got <hello>")
	}
	s.typed(ctrlC)
	if err := s.cmd.Wait(); err == nil || err.Error() != "signal: interrupt" {
		t.Errorf("ended with %v, want signal: interrupt", err)
	}
}

// A command that nobody could start leaves the terminal with the wrapper.
func TestTerminalAfterFailedStart(t *testing.T) {
	s := newSession(t, "tty", true, "/dev/null")
	s.reports.want("exited 125 job's echo")
}

// SIGSTOP from elsewhere stops the command alone: its supervisor goes on, and so
// does the command when it is continued.
func TestStopFromElsewhere(t *testing.T) {
	s := newSession(t, "tty", true, shell(`echo pid $$ $PPID end; `+echoes)...)
	s.shows("pid ")
	var pid, wrapper int
	if _, err := fmt.Sscan(s.shows(" end"), &pid, &wrapper); err != nil {
		t.Fatal(err)
	}
	s.shows("ready")
	syscall.Kill(pid, syscall.SIGSTOP)
	syscall.Kill(wrapper, syscall.SIGTERM)
	syscall.Kill(pid, syscall.SIGCONT)
	s.reports.want("exited 143 job's echo")
}
