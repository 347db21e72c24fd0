package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// fullPipe returns the write end of a full pipe that nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	_, w := clitest.NewPipe(t)
	// The pipe is non-blocking only while it is filled. Later writes must block.
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		for _, size := range []int{4096, 1} {
			for err == nil {
				_, err = syscall.Write(int(fd), bytes.Repeat([]byte("x"), size))
			}
			err = nil
		}
		err = syscall.SetNonblock(int(fd), false)
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// child starts an exec whose command writes its pid into a file, and returns
// that pid.
func (w *world) child(cmd *exec.Cmd, file string) int {
	w.T.Helper()
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { cmd.Process.Kill() })
	return w.readPID(file)
}

func (w *world) readPID(file string) (pid int) {
	w.T.Helper()
	w.Await("the command to start", func() bool {
		text, err := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && strings.HasSuffix(string(text), "\n")
	})
	return pid
}

// A full stderr that nobody reads prevents neither the stop of a command whose lease is lost, nor
// the effect of a TERM, nor the release.
func TestFullStderr(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	for _, tt := range []struct {
		name string
		end  func(w *world, exec *exec.Cmd)
		want int
	}{
		{"lost", func(w *world, _ *exec.Cmd) { w.Run(0, "break", "install-0", "--reason", "test", "--now") }, exitLost},
		{"TERM", func(_ *world, exec *exec.Cmd) { exec.Process.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, program, "install=1")
			file := w.Path("pid")
			cmd := w.Command("exec", "--verbose", "--type", "install", "--ttl", "10s", "--grace-period", "1s", "--",
				"sh", "-c", "echo $$ >'"+file+"'; exec sleep 600")
			cmd.Stderr = fullPipe(t)
			pid := w.child(cmd, file)
			tt.end(w, cmd)
			w.Await("the command to be stopped", func() bool { return !clitest.Lives(pid) })
			if code := clitest.ExitCode(cmd.Wait()); code != tt.want {
				t.Errorf("exit code %d, want %d", code, tt.want)
			}
			w.WantHeld()
		})
	}
}

// Signals reach the command each time they come, from its start on.
func TestForwardedSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	file, got := w.Path("pid"), w.Path("got")
	// The command outlives a TERM, and ends at the second or at an INT.
	script := fmt.Sprintf(`trap 'echo TERM >>"%[1]s"' TERM; trap 'echo INT >>"%[1]s"; exit 7' INT; echo $$ >"%[2]s"; while :; do sleep 0.05; done`, got, file)
	cmd := w.Command("exec", "--type", "install", "--grace-period", "1m", "--", "bash", "-c", script)
	w.child(cmd, file)
	saw := func(want string) {
		t.Helper()
		w.Await("the command to get "+want, func() bool {
			text, _ := os.ReadFile(got)
			return string(text) == want
		})
	}
	cmd.Process.Signal(syscall.SIGTERM)
	saw("TERM\n")
	cmd.Process.Signal(syscall.SIGTERM)
	saw("TERM\nTERM\n")
	cmd.Process.Signal(syscall.SIGINT)
	saw("TERM\nTERM\nINT\n")
	if code := clitest.ExitCode(cmd.Wait()); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d, want that of the first TERM", code)
	}
	w.WantHeld()
}

// A signal that came while exec was queueing is not replayed to the command.
func TestSignalBeforeStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	w.Run(0, "acquire", "--type", "install", "--handle", w.Path("blocker"))
	file := w.Path("pid")
	cmd := w.Command("exec", "--type", "install", "--", "sh", "-c", "echo $$ >'"+file+"'; sleep 0.2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	w.Await("exec to queue", func() bool { return w.Pool("install").Waiting == 1 })
	// USR1 would end a program without a handler. Exec has one when it asks for a lease.
	cmd.Process.Signal(syscall.SIGUSR1)
	cmd.Process.Signal(syscall.SIGUSR2)
	w.Run(0, "release", "--handle", w.Path("blocker"))
	w.readPID(file)
	if code := clitest.ExitCode(cmd.Wait()); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	w.WantHeld()
}

// If a command gives its own lease back, the lease is not lost, and the command goes on.
func TestCommandGivesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	cmd := w.Command("exec", "--verbose", "--type", "install", "--ttl", "10s", "--grace-period", "1s", "--",
		"sh", "-c", "'"+w.Program+"'"+` release --handle "$LEASECTL_HANDLE" && until test -e noticed; do sleep 0.01; done && sleep 1; exit 3`)
	stderr := new(clitest.LiveLog)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Await("a renewal that finds the lease given back", func() bool { return strings.Contains(stderr.String(), "given back by its command") })
	if err := os.WriteFile(w.Path("noticed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := clitest.ExitCode(cmd.Wait()); code != 3 {
		t.Errorf("exit code %d, want the command's 3\n%s", code, stderr)
	}
	w.WantHeld()
}

// The grace period ends before the granted TTL does, also if the pool granted less than was asked
// for.
func TestGraceWithinGrantedTTL(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	// The lease ends 10 s after the last renewal, which comes before the stop.
	clitest.Promptly(t, 10*time.Second, func() time.Duration { return newWorld(t, program, "unused=1").stopServerUnderCommand() })
}

// stopServerUnderCommand stops the server of a lease of 10 s, and returns how long the command then
// lived.
func (w *world) stopServerUnderCommand() (took time.Duration) {
	t := w.T
	config := w.Path("pools.yaml")
	if err := os.WriteFile(config, []byte("resources:\n- type: short\n  names: [short-0]\n  max_ttl: 10s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(w.Dir, "short.sock")
	server := w.Command("serve", "--socket", socket, "--config", config)
	server.Stderr = w.Log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	stopServer := func() { server.Process.Signal(syscall.SIGCONT); server.Process.Signal(syscall.SIGINT); server.Wait() }
	defer stopServer()
	w.Await("the proxy to listen", func() bool { return strings.Contains(w.Log.String(), "short.sock") })

	file := w.Path("pid")
	cmd := w.Command("exec", "--proxy", "unix://"+socket, "--type", "short", "--grace-period", "30s", "--",
		"bash", "-c", "trap '' TERM; echo $$ >'"+file+"'; while :; do sleep 0.1; done")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	pid := w.child(cmd, file)
	server.Process.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	w.Await("the command to be stopped", func() bool { return !clitest.Lives(pid) })
	took = time.Since(stopped)
	said, _ := io.ReadAll(stderr)
	code := clitest.ExitCode(cmd.Wait())
	if code != exitLost || clitest.Lives(pid) {
		t.Errorf("exit code %d, want %d; the command lives: %t\n%s", code, exitLost, clitest.Lives(pid), said)
	}
	if !strings.Contains(string(said), "was granted for 10s") {
		t.Errorf("it did not say that the grace period is cut:\n%s", said)
	}
	return took
}
