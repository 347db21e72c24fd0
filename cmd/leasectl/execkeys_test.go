package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/leaseapi"
)

// ^C ends a bash script around leasectl as it ends one around the command alone, whether the
// command or the script has the terminal, and also while exec or acquire queues or status watches.
// If leasectl exited by itself instead of dying by the signal, bash would go on with the script.
func TestInterruptedScript(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	const command = `"$0" exec --type install -- sh -c "echo ready; exec sleep 600"`
	for _, tt := range []struct {
		name, script string
		queues       bool
	}{
		{"the command has the terminal", command, false},
		{"the script has the terminal", command + " </dev/null", false},
		{"queueing", command, true},
		{"acquire", `"$0" acquire --type install --handle h`, true},
		{"watching", `"$0" status --watch`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, program, "install=1")
			if tt.queues {
				w.Run(0, "acquire", "--type", "install", "--handle", w.Path("blocker"))
			}
			s := w.onTerminal("bash", "-c", tt.script+"; echo next", w.Program)
			if tt.queues {
				w.Await("it to queue", func() bool { return w.Pool("install").Waiting == 1 })
			} else {
				w.Await("it to have begun", func() bool {
					return strings.Contains(s.said.String(), "ready") || strings.Contains(s.said.String(), "IN USE")
				})
			}
			s.interrupt()
			if strings.Contains(s.said.String(), "next") {
				t.Errorf("the script went on, and showed %q", s.said)
			}
			if p := w.Pool("install"); p.Waiting != 0 || !tt.queues && p.InUse != 0 {
				t.Errorf("%d leases are held, %d requests wait", p.InUse, p.Waiting)
			}
		})
	}
}

// If ^C ended the command, exec gives the lease back before it passes the ^C on to the other
// processes of the script. They may kill exec: Python, say, kills its child a quarter of a second
// after ^C.
func TestInterruptedScriptAfterRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	var early atomic.Bool
	var other atomic.Int64 // pid of the other process of the script
	w.RelayAnswers(func(r *http.Request) bool {
		if r.URL.Path == leaseapi.PathRelease {
			early.Store(!process.Lives(int(other.Load())))
		}
		return true
	})
	s := w.onTerminal("bash", "-c", `sh -c 'echo $$ >other; exec sleep 600' | "$0" exec --type install -- sh -c "echo ready; exec sleep 600" </dev/tty`, w.Program)
	other.Store(int64(w.readPID(w.Path("other"))))
	s.awaits("ready")
	s.interrupt()
	if early.Load() {
		t.Error("another process of the script was interrupted before the release")
	}
	if p := w.Pool("install"); p.InUse != 0 {
		t.Errorf("%d leases are held", p.InUse)
	}
}

// onTerminal is a command on a terminal of its own, as the leader of a session.
type onTerminal struct {
	*world
	*exec.Cmd
	keys  *os.File
	said  *clitest.LiveLog
	shown chan struct{} // closed when said is complete
}

func (w *world) onTerminal(argv ...string) *onTerminal {
	w.T.Helper()
	s := &onTerminal{world: w, Cmd: exec.Command(argv[0], argv[1:]...), said: new(clitest.LiveLog), shown: make(chan struct{})}
	s.Dir, s.Env = w.Dir, w.Env
	var err error
	if s.keys, err = pty.Start(s.Cmd); err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { s.keys.Close() })
	go func() {
		defer close(s.shown)
		io.Copy(s.said, s.keys) // until the session has ended
	}()
	return s
}

func (s *onTerminal) awaits(text string) {
	s.T.Helper()
	s.Await(text, func() bool { return strings.Contains(s.said.String(), text) })
}

// interrupt types ^C, and waits for the command to end by SIGINT.
func (s *onTerminal) interrupt() {
	s.T.Helper()
	io.WriteString(s.keys, "\x03")
	s.Wait()
	<-s.shown
	if ws := s.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGINT {
		s.T.Errorf("it ended with %v, and showed %q", s.ProcessState, s.said)
	}
}
