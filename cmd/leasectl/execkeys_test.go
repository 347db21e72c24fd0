package main

import (
	"bytes"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// ^C ends a bash script around exec as it would end one around the command alone: whoever
// has the terminal, and while exec queues, too. Bash goes on with the script if
// what it waited for exited by itself.
func TestInterruptedScript(t *testing.T) {
	t.Parallel()
	program := build(t, "")
	const command = `"$0" exec --type install -- sh -c "echo ready; exec sleep 600"`
	for _, tt := range []struct {
		name, script string
		queues       bool
	}{
		{"the command has the terminal", command, false},
		{"the script has the terminal", command + " </dev/null", false},
		{"queueing", command, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, program, "install=1")
			if tt.queues {
				w.run(0, "acquire", "--type", "install", "--handle", w.path("blocker"))
			}
			shell := exec.Command("bash", "-c", tt.script+"; echo next", w.program)
			shell.Dir, shell.Env = w.dir, w.env
			terminal, err := pty.Start(shell) // in a session of its own
			if err != nil {
				t.Fatal(err)
			}
			defer terminal.Close()
			var said screen
			shown := make(chan struct{})
			go func() {
				defer close(shown)
				io.Copy(&said, terminal) // until the session has ended
			}()
			if tt.queues {
				w.await("exec to queue", func() bool { return w.pool("install").Waiting == 1 })
			} else {
				w.await("the command to start", func() bool { return bytes.Contains(said.bytes(), []byte("ready")) })
			}
			io.WriteString(terminal, "\x03")
			shell.Wait()
			<-shown
			if ws := shell.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGINT || bytes.Contains(said.bytes(), []byte("next")) {
				t.Errorf("the script ended with %v, and showed %q", shell.ProcessState, said.bytes())
			}
			if p := w.pool("install"); p.Waiting != 0 || !tt.queues && p.InUse != 0 {
				t.Errorf("%d leases are held, %d requests wait", p.InUse, p.Waiting)
			}
		})
	}
}

// screen is what a terminal shows.
type screen struct {
	mu   sync.Mutex
	text []byte
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	return len(p), nil
}

func (s *screen) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.text)
}
