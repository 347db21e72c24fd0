package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// A full stderr that nobody reads delays a command by a second at most. The command does its work,
// prints its data, and ends as otherwise.
func TestFullStderrOfCommands(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	start := func(t *testing.T, w *world, args ...string) (cmd *exec.Cmd, stdout *strings.Builder) {
		t.Helper()
		cmd, stdout = w.Command(args...), new(strings.Builder)
		cmd.Stdout, cmd.Stderr = stdout, fullPipe(t)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
		t.Cleanup(func() { stuck.Stop() })
		return cmd, stdout
	}
	run := func(t *testing.T, w *world, want int, args ...string) (stdout string) {
		t.Helper()
		cmd, out := start(t, w, args...)
		if code := clitest.ExitCode(cmd.Wait()); code != want {
			t.Fatalf("leasectl %v: exit code %d, want %d (-1: stuck)", args, code, want)
		}
		return out.String()
	}

	t.Run("acquire and release", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, program, "install=1")
		handle := w.Path("handle")
		if out := run(t, w, 0, "acquire", "--verbose", "--type", "install", "--handle", handle); out != handle+"\n" {
			t.Errorf("acquire printed %q", out)
		}
		w.WantHeld("install-0")
		if out := run(t, w, 0, "release", "--verbose", "--handle", handle); out != "install-0\n" {
			t.Errorf("release printed %q", out)
		}
		w.WantHeld()
	})
	t.Run("dry run, and errors", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, program, "install=1")
		env := w.Env
		w.Env = append(slices.Clip(env), "LEASE_PROXY_SERVER_URL=")
		run(t, w, 0, "exec", "--type", "install", "--", "true")
		w.Env = env
		run(t, w, exitUsage, "acquire")
		run(t, w, exitUnknownType, "acquire", "--type", "none")
		run(t, w, exitNotFound, "exec", "--type", "install", "--", "no-such-command")
		w.WantHeld()
	})
	t.Run("wait", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, program, "install=1")
		w.Run(0, "acquire", "--type", "install", "--handle", w.Path("blocker"))
		cmd, out := start(t, w, "acquire", "--verbose", "--type", "install", "--handle", w.Path("handle"))
		w.Await("the acquire to queue", func() bool { return w.Pool("install").Waiting == 1 })
		time.Sleep(firstReport) // until it had to print a line about its wait
		w.Run(0, "release", "--handle", w.Path("blocker"))
		if code := clitest.ExitCode(cmd.Wait()); code != 0 || out.String() != w.Path("handle")+"\n" {
			t.Errorf("exit code %d (-1: stuck), printed %q", code, out)
		}
		w.WantHeld("install-0")
		w.Run(0, "release", "--handle", w.Path("handle"))
	})
}
