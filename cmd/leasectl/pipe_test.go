package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// A command waits for a token or an authority from a pipe, and TERM ends the wait. Before, only
// KILL ended a command whose pipe nobody wrote.
func TestCommandsWaitForAPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	const ended = 128 + int(syscall.SIGTERM)
	for _, tt := range []struct {
		code int
		args []string
	}{
		{ended, []string{"acquire", "--type", "install", "--token-file", newPipeFile(t)}},
		{ended, []string{"exec", "--type", "install", "--token-file", newPipeFile(t), "--", "true"}},
		{ended, []string{"reacquire", "--type", "install", "--handle", "h", "--token-file", newPipeFile(t)}},
		{exitUsage, []string{"release", "--names", "install-0", "--token-file", newPipeFile(t)}}, // it tries for a moment more
		{ended, []string{"status", "--proxy", "https://127.0.0.1:1", "--ca", newPipeFile(t)}},
	} {
		t.Run(tt.args[0], func(t *testing.T) {
			t.Parallel()
			said := new(clitest.LiveLog)
			cmd := w.Command(tt.args...)
			cmd.Stderr = said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stuck := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
			defer stuck.Stop()
			defer cmd.Process.Kill()
			clitest.Await(t, said, "it to say what it waits for", func() bool {
				return strings.Contains(said.String(), "is a pipe, and nobody has written and closed it yet: waiting for it")
			})
			cmd.Process.Signal(syscall.SIGTERM)
			if code := clitest.ExitCode(cmd.Wait()); code != tt.code {
				t.Errorf("exit code %d, want %d\n%s", code, tt.code, said)
			}
		})
	}
}

// A command reads a pipe only once. Before, exec --shared read it twice, and had no token the
// second time. If the proxy refuses the token, the command does not wait for another one.
func TestTokenFromAPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens, good := filepath.Join(dir, "tokens"), filepath.Join(dir, "good")
	for path, text := range map[string]string{tokens: "a good-0123456789abc\n", good: "good-0123456789abc\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorldOf(t, clitest.Build(t, ""), "--pool", "install=1", "--tokens", tokens)
	run := func(code int, token string, args ...string) {
		t.Helper()
		pipe, written := newPipeFile(t), make(chan error, 1)
		go func() { written <- os.WriteFile(pipe, []byte(token), 0) }()
		cmd := w.Command(append([]string{args[0], "--token-file", pipe}, args[1:]...)...)
		said := new(clitest.LiveLog)
		cmd.Stderr = said
		stuck := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
		defer stuck.Stop()
		if got := clitest.ExitCode(cmd.Run()); got != code {
			t.Errorf("%v with %s: exit code %d, want %d\n%s", args, token, got, code, said)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
	run(3, "good-0123456789abc", "exec", "--shared", "NAME", "--type", "install", "--", "sh", "-c", "exit 3")
	run(3, "good-0123456789abc", "exec", "--type", "install", "--", "sh", "-c", "exit 3")
	run(exitExecFailure, "wrong-0123456789abc", "exec", "--type", "install", "--", "true")
	run(exitFailure, "wrong-0123456789abc", "status")

	// A keeper could not read the pipe again after its acquire, so nothing is given up or waited
	// for, not even the pipe.
	w.Run(0, "acquire", "--type", "install", "--handle", "h", "--token-file", good)
	pid, _ := w.Owner()
	var stderr bytes.Buffer
	cmd := w.Command("reacquire", "--handle", "h", "--owner-pid", strconv.Itoa(pid), "--token-file", newPipeFile(t))
	cmd.Stderr = &stderr
	if code := clitest.ExitCode(cmd.Run()); code != exitUsage || !strings.Contains(stderr.String(), "only with a file") {
		t.Errorf("exit code %d; it said %s", code, &stderr)
	}
	w.WantHeld("install-0")
}
