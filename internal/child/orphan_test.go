package child

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/leasectl/leasectl/internal/testenv"
)

// orphanMode starts the wrapper in a background group and ends, so that no process of the
// session is left that could continue the group. The wrapper starts when descriptor 3 says that
// orphanMode has ended.
func orphanMode(args []string) int {
	argv, env := testenv.Self("wrapper", args...)
	argv = append(testenv.Shell(`read go <&3; exec "$0" "$@"`), argv...)
	_, _, err := syscall.StartProcess(argv[0], argv, &syscall.ProcAttr{
		Env: env, Files: []uintptr{0, 1, 2, 3}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		panic(err)
	}
	return 0
}

// A command in the background that asks for the terminal stays stopped if no process could ever
// put it into the foreground. If it were continued, it would ask again, and again. SIGCONT from
// elsewhere is still passed on.
func TestBackgroundWithoutShell(t *testing.T) {
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	out, w := testenv.Report(t)
	orphan, env := testenv.Self("orphan", append(testenv.Shell(`echo $$ $PPID; exec "$0" "$@"`), conts()...)...)
	// The session's leader stays: the terminal would go with it.
	leader := exec.Command("/bin/sh", "-c", `"$0" "$@"; echo go >&4; read x`)
	leader.Args = append(leader.Args, orphan...)
	leader.Env, leader.Stdin, leader.Stdout = env, tty, w
	goR, goW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	leader.ExtraFiles = []*os.File{goR, goW}
	leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{tty, w, goR, goW} {
		f.Close()
	}
	pid, parent, _ := strings.Cut(out.Next(), " ")
	command, wrapper := testenv.Atoi(t, pid), testenv.Atoi(t, parent)
	defer func() {
		syscall.Kill(wrapper, syscall.SIGKILL) // the command with it: see wrapperMode
		terminal.Close()
		leader.Process.Kill()
		leader.Wait()
		syscall.Kill(command, syscall.SIGKILL)
	}()
	out.Want("ready")

	sent := 0
	testenv.Bound(out.File)
	seen := make(chan int)
	go func() {
		n := 0
		for scanner := bufio.NewScanner(out.File); n < 3 && scanner.Scan(); n++ {
		}
		seen <- n
	}()
	for {
		// Send the next SIGCONT only when the command is stopped again, so that each one can be
		// counted.
		for !stoppedProcess(t, command) {
			runtime.Gosched()
		}
		syscall.Kill(wrapper, syscall.SIGCONT)
		sent++
		select {
		case n := <-seen:
			if n < 3 {
				testenv.RanOut()
				t.Errorf("continued %d times in all, for %d SIGCONT", n, sent)
			}
			if sent < n {
				t.Errorf("continued %d times for %d SIGCONT", n, sent)
			}
			return
		default:
		}
	}
}

// stoppedProcess tells whether a process is stopped.
func stoppedProcess(t *testing.T, pid int) bool {
	t.Helper()
	look := testenv.Shell(testenv.Groups + `groups $0 && printf %s "$state"`)
	state, err := exec.Command(look[0], append(look[1:], strconv.Itoa(pid))...).Output()
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	return strings.HasPrefix(string(state), "T")
}

// A wrapper without a terminal does not stop with its command, even if its parent could
// continue it.
func TestStopWithoutTerminalIsNotFollowed(t *testing.T) {
	out, w := testenv.Report(t)
	signals, _ := testenv.Self("signals")
	script := append(testenv.Shell(`echo $$ $PPID; exec "$0" "$@"`), append([]string{"/usr/bin/env", testenv.ModeName + "=signals"}, signals...)...)
	inner, _ := testenv.Self("wrapper", script...)
	// The outer wrapper leads a session, so that there is no terminal. The inner wrapper has
	// its own group in that session, with a parent outside of the group.
	argv, env := testenv.Self("wrapper", append([]string{"/usr/bin/env", testenv.ModeName + "=wrapper"}, inner...)...)
	outer := exec.Command(argv[0], argv[1:]...)
	outer.Env, outer.Stdout = env, w
	in, err := outer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	outer.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := outer.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { outer.Process.Kill(); outer.Wait() })
	pid, parent, _ := strings.Cut(out.Next(), " ")
	command, wrapper := testenv.Atoi(t, pid), testenv.Atoi(t, parent)
	out.Want("ready")
	for range 20 {
		syscall.Kill(command, syscall.SIGTTIN)
		for !stoppedProcess(t, command) {
			runtime.Gosched()
		}
		syscall.Kill(wrapper, syscall.SIGUSR1)
		syscall.Kill(wrapper, syscall.SIGCONT) // forwarded as well
		out.Want("user defined signal 1")
	}
	// SIGTSTP is forwarded like any other, and stops the command alone.
	syscall.Kill(wrapper, syscall.SIGTSTP)
	for !stoppedProcess(t, command) {
		runtime.Gosched()
	}
	if stoppedProcess(t, wrapper) {
		t.Error("the wrapper is stopped")
	}
	syscall.Kill(wrapper, syscall.SIGTERM)
	syscall.Kill(wrapper, syscall.SIGCONT)
	out.Want("terminated")
}
