package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// newPipeFile makes a named pipe.
func newPipeFile(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A server that waits for a pipe says so, and TERM ends it. HUP does not end it if it has files to
// reload, just as later when it serves.
func TestServeWaitsForAPipe(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	ofEtcd := []string{"--data", "etcds://127.0.0.1:1/leases"}
	for _, c := range []struct{ pipes, others []string }{
		{[]string{"--config"}, nil},
		{[]string{"--tokens"}, nil},
		{[]string{"--tls-cert", "--tls-key"}, nil},
		{[]string{"--data-ca"}, ofEtcd},
		{[]string{"--data-cert", "--data-key"}, ofEtcd},
		{[]string{"--data-credentials"}, ofEtcd},
	} {
		t.Run(c.pipes[0], func(t *testing.T) {
			t.Parallel()
			args := append([]string{"serve", "--listen", "127.0.0.1:0", "--pool", "q=1"}, c.others...)
			for _, flag := range c.pipes {
				args = append(args, flag, newPipeFile(t))
			}
			log := new(clitest.LiveLog)
			cmd := exec.Command(program, args...)
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill() // if await gives up
			stuck := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
			defer stuck.Stop()
			clitest.Await(t, log, "it to say what it waits for", func() bool {
				return strings.Contains(log.String(), "it is a pipe, and nobody has written and closed it yet")
			})
			if c.others == nil {
				cmd.Process.Signal(syscall.SIGHUP)
			}
			cmd.Process.Signal(syscall.SIGTERM)
			if code := clitest.ExitCode(cmd.Wait()); code != 128+int(syscall.SIGTERM) {
				t.Errorf("exit code %d\n%s", code, log)
			}
		})
	}
}

// A pipe is read once, whenever somebody writes it. The server goes on although it cannot read the
// pipe again, and says so if HUP asks for a reload.
func TestServeReadsAPipeOnce(t *testing.T) {
	t.Parallel()
	pipe, tokens := newPipeFile(t), filepath.Join(t.TempDir(), "tokens")
	write := func(text string) error { return os.WriteFile(tokens, []byte(text), 0o600) }
	if err := write("a first-0123456789\n"); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("resources: [{type: piped, names: [a]}]"), 0) }()
	s := startServer(t, clitest.Build(t, ""), "", "--config", pipe, "--tokens", tokens)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if err := write("a second-0123456789\n"); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, s.log, "it to look at its files twice", func() bool { return strings.Contains(s.log.String(), "msg=reloaded source=tokens") })
	if text := s.log.String(); !strings.Contains(text, "piped=1") || strings.Contains(text, "reload failed") {
		t.Errorf("%s", text)
	}
	s.cmd.Process.Signal(syscall.SIGHUP)
	clitest.Await(t, s.log, "it to say that it cannot", func() bool {
		return strings.Contains(s.log.String(), `source=config error="a pipe was read to its end at the start`)
	})
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.ends(0, "msg=stopped")
}

// A hangup from before the files were read does not ask for a reload. A pipe could not be read
// again, and the server would stay degraded.
func TestHangupBeforeTheFilesAreRead(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(config, []byte("resources: [{type: a, names: [a]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangups := make(chan struct{}, 1)
	hangups <- struct{}{}
	s := &settings{app: new(app), hangups: hangups}
	if err := s.read(t.Context(), &serveOptions{config: config}); err != nil {
		t.Fatal(err)
	}
	if len(hangups) > 0 {
		t.Error("it would read them again at once")
	}
}

// A pipe in the place of a file is refused like any other bad file. It does not stop the server,
// and does not delay its end.
func TestServeRefusesAPipeInPlaceOfAFile(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(config, []byte("resources: [{type: a, names: [a]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, clitest.Build(t, ""), "", "--config", config)
	if err := errors.Join(os.Remove(config), syscall.Mkfifo(config, 0o600)); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, s.log, "it to refuse the pipe", func() bool {
		return strings.Contains(s.log.String(), "is no file any more, but a pipe or the like")
	})
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.ends(0, "msg=stopped")
}
