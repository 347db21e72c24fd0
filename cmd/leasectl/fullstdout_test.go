package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// A signal ends a command that writes to a full stdout, which nobody reads. An acquire gives its lease
// back, since nobody knows the handle.
func TestSignalsWithAFullStdout(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		for _, args := range [][]string{
			{"version"}, {"help"}, {"status"}, {"status", "--watch"}, {"acquire", "--type", "install"}, {"cat", "--handle", "h"}, {"release", "--all", "--owner", "job-1"},
		} {
			t.Run(strings.Join(args, " ")+" "+sig.String(), func(t *testing.T) {
				t.Parallel()
				clitest.Promptly(t, 10*time.Second, func() time.Duration {
					w := newWorld(t, program, "install=2")
					w.Run(0, "acquire", "--type", "install", "--handle", "h")
					cmd := w.Command(args...)
					cmd.Stdout, cmd.Stderr = fullPipe(t), fullPipe(t)
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					stuck := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
					defer stuck.Stop()
					awaitWrite(cmd.Process.Pid)
					if args[0] == "acquire" {
						w.Await("its lease", func() bool { return w.Pool("install").InUse == 2 })
					}
					begun := time.Now()
					cmd.Process.Signal(sig)
					if code := clitest.ExitCode(cmd.Wait()); code != 128+int(sig) && code != -1 {
						t.Errorf("exit code %d", code)
					}
					took := time.Since(begun)
					if args[0] != "release" {
						w.WantHeld("install-0")
						w.Run(0, "release", "--handle", "h")
					}
					w.WantHeld()
					return took
				})
			})
		}
	}
}

// awaitWrite waits until a process writes to a pipe that is full. It gives up where the kernel does not
// say what a process waits for.
func awaitWrite(pid int) {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		channels, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/wchan")
		for _, file := range channels {
			if text, _ := os.ReadFile(file); strings.Contains(string(text), "pipe_write") {
				return
			}
		}
	}
}
