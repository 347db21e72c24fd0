package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
	"github.com/leasectl/leasectl/internal/testenv"
)

// shellMode acts as a shell with job control: it starts the rest of the arguments as a
// foreground job, reports on descriptor 4 how the job stops and ends, and takes fg and bg from
// descriptor 3. For a "pipe" the job's standard output is descriptor 5. The wrapper is the job;
// for a "script" it is a part of the job, beside the script that runs it.
func shellMode(args []string) int {
	commands := bufio.NewScanner(os.NewFile(3, "commands"))
	files := []uintptr{0, 1, 2}
	argv, env := testenv.Self("wrapper", args[1:]...)
	switch args[0] {
	case "pipe":
		files[1] = 5
	case "script":
		argv = append(testenv.Shell(`"$0" "$@"; exit $?`), argv...)
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
		if err := sys.RetryInterrupted(func() error {
			_, err := unix.Wait4(job, &ws, unix.WUNTRACED, nil)
			return err
		}); err != nil {
			panic(err)
		}
		syscall.Write(4, []byte(describeJob(job, ws)+"\n"))
		if !ws.Stopped() {
			return 0
		}
		WithoutTTOU(func() { setForeground(0, syscall.Getpgrp()) })
		if !commands.Scan() {
			return 1
		}
		if commands.Text() == "fg" {
			WithoutTTOU(func() { setForeground(0, job) })
		}
		syscall.Kill(-job, syscall.SIGCONT)
		syscall.Write(4, []byte("continued\n"))
	}
}

// describeJob says what became of the job, who has the terminal, and whether the terminal
// echoes.
func describeJob(job int, ws unix.WaitStatus) string {
	what := "exited " + strconv.Itoa(ws.ExitStatus())
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
	reports  *testenv.Lines
	output   *testenv.Lines // of the job, if it is not the terminal
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
	if err := testenv.Bound(terminal); err != nil {
		t.Fatal(err)
	}
	commands, commandsW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer commands.Close()
	s := &session{t: t, terminal: terminal, commands: commandsW}
	argv, env := testenv.Self("wrapper", command...)
	if withShell {
		argv, env = testenv.Self("shell", append([]string{stdout}, command...)...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	var reportsW, outputW *os.File
	s.reports, reportsW = testenv.Report(t)
	s.output, outputW = testenv.Report(t)
	cmd.ExtraFiles = []*os.File{commands, reportsW, outputW}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	testenv.Started(cmd.Process.Pid)
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
		testenv.Bound(s.terminal)
		n, err := s.terminal.Read(buf)
		s.seen.Write(buf[:n])
		if err != nil {
			testenv.RanOut()
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

// awaitReady waits for the command's first line.
func (s *session) awaitReady(stdout string) {
	s.t.Helper()
	if stdout == "pipe" {
		s.output.Want("ready")
	} else {
		s.shows("ready")
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

// contsMode echoes lines, unless it is "deaf", and says when it is continued. If it "handles
// INT", it exits with 9 on SIGINT, after a further line if it "asks".
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

// conts returns the command line for contsMode in a session, since the session's wrapper runs
// in a mode of its own.
func conts(args ...string) []string {
	argv, _ := testenv.Self("conts", args...)
	return append([]string{"/usr/bin/env", testenv.ModeName + "=conts"}, argv...)
}

// ^Z stops the whole job, not the wrapper alone: the shell would wait forever for
// the rest, here a script that waits for the wrapper.
func TestStopOfAScript(t *testing.T) {
	s := newSession(t, "script", true, conts()...)
	s.shows("ready")
	for range 3 {
		s.typed(ctrlZ)
		s.reports.Want("stopped SIGTSTP job's echo")
		s.shell("fg")
		s.reports.Want("continued")
		s.shows("continued")
	}
	s.typed("\x04") // end of input
	s.reports.Want("exited 0 job's echo")
}
