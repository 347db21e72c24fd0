package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A token or an authority that is to come from a pipe is waited for, and TERM ends that.
// Before, only KILL ended a command whose pipe nobody wrote.
func TestCommandsWaitForAPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, build(t, ""), "install=1")
	const ended = 128 + int(syscall.SIGTERM)
	for _, tt := range []struct {
		code int
		args []string
	}{
		{ended, []string{"acquire", "--type", "install", "--token-file", newPipeFile(t)}},
		{ended, []string{"exec", "--type", "install", "--token-file", newPipeFile(t), "--", "true"}},
		{ended, []string{"reacquire", "--type", "install", "--handle", "h", "--token-file", newPipeFile(t)}},
		{exitUsage, []string{"release", "--names", "install-0", "--token-file", newPipeFile(t)}}, // it goes on for a moment
		{ended, []string{"status", "--proxy", "https://127.0.0.1:1", "--ca", newPipeFile(t)}},
	} {
		t.Run(tt.args[0], func(t *testing.T) {
			t.Parallel()
			said := new(liveLog)
			cmd := w.command(tt.args...)
			cmd.Stderr = said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stuck := time.AfterFunc(patience, func() { cmd.Process.Kill() })
			defer stuck.Stop()
			defer cmd.Process.Kill()
			await(t, said, "it to say what it waits for", func() bool {
				return strings.Contains(said.String(), "is a pipe, and nobody has written and closed it yet: waiting for it")
			})
			cmd.Process.Signal(syscall.SIGTERM)
			if code := exitCode(cmd.Wait()); code != tt.code {
				t.Errorf("exit code %d, want %d\n%s", code, tt.code, said)
			}
		})
	}
}

// A pipe is read once for all that a command does: exec --shared read it twice, and had no
// token the second time. A token from it that is refused is not waited for again.
func TestTokenFromAPipe(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("a good-0123456789abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, build(t, ""), "--pool", "install=1", "--tokens", tokens)
	run := func(code int, token string, args ...string) (stderr string) {
		t.Helper()
		pipe, written := newPipeFile(t), make(chan error, 1)
		go func() { written <- os.WriteFile(pipe, []byte(token), 0) }()
		cmd := w.command(append([]string{args[0], "--token-file", pipe}, args[1:]...)...)
		said := new(liveLog)
		cmd.Stderr = said
		stuck := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer stuck.Stop()
		if got := exitCode(cmd.Run()); got != code {
			t.Errorf("%v with %s: exit code %d, want %d\n%s", args, token, got, code, said)
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
		return said.String()
	}
	run(3, "good-0123456789abc", "exec", "--shared", "NAME", "--type", "install", "--", "sh", "-c", "exit 3")
	run(3, "good-0123456789abc", "exec", "--type", "install", "--", "sh", "-c", "exit 3")
	run(exitExecFailure, "wrong-0123456789abc", "exec", "--type", "install", "--", "true")
	run(exitFailure, "wrong-0123456789abc", "status")

	// A keeper cannot read what its acquire has read.
	pid, _ := w.owner()
	said := run(exitFailure, "good-0123456789abc", "acquire", "--type", "install", "--handle", "h", "--owner-pid", strconv.Itoa(pid))
	if !strings.Contains(said, "start a keeper: --token-file") || !strings.Contains(said, "only with a file") {
		t.Errorf("it said %s", said)
	}
	w.wantHeld()
}
