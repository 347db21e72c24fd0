package child

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/internal/sys"
	"github.com/leasectl/leasectl/internal/testenv"
)

func init() { modes["reaper"] = reaperMode }

// reaperMode is a supervisor that inherits the orphans of its commands.
func reaperMode(args []string) int {
	killTime = 100 * time.Millisecond // in a namespace each stop takes all of it
	if args[0] == "subreaper" {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			panic(err)
		}
	}
	stop := process.ReapOrphans()
	for _, scene := range []func(){manyOrphans, orphanOfAStop, slowEnd} {
		scene()
		noZombie()
	}
	stop()
	fmt.Println("done")
	return 0
}

// manyOrphans runs short commands, each of which leaves orphans that end when the command does,
// so that a reaper could confuse the two.
func manyOrphans() {
	for code := range 50 {
		p, err := Start(Command{
			Args:   testenv.Shell(strings.Repeat("(exit 77 &); ", 5) + fmt.Sprintf("exit %d", code)),
			Stderr: os.Stderr,
		})
		if err != nil {
			panic(err)
		}
		if s := p.Wait(); s.Code != code || s.Signal != 0 {
			fmt.Printf("command %d ended with %v\n", code, s)
		}
	}
}

// orphanOfAStop stops a command whose leader ends first. The leader's zombie stays until the
// grandchild, by then an orphan, is dead.
func orphanOfAStop() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	p, err := Start(Command{Args: testenv.Shell(stubborn + " & wait"), Stdout: w})
	if err != nil {
		panic(err)
	}
	r.Read(make([]byte, 16)) // it ignores TERM
	p.Stop(syscall.SIGTERM, 50*time.Millisecond)
	if s := p.Wait(); s.Signal != syscall.SIGTERM {
		fmt.Printf("the stopped command ended with %v\n", s)
	}
}

// slowEnd stops a command that ends slowly. In the namespace /proc shows the processes of
// another namespace.
func slowEnd() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	p, err := Start(Command{Args: testenv.Shell(`trap 'sleep 0.1; exit 5' TERM; echo ready; while :; do sleep 0.01; done`), Stdout: w})
	if err != nil {
		panic(err)
	}
	r.Read(make([]byte, 16))
	p.Stop(syscall.SIGTERM, 3*time.Second) // in the namespace all of it goes by
	if s := p.Wait(); s.Code != 5 {
		fmt.Printf("the slow command ended with %v\n", s)
	}
}

// noZombie returns once this process has no child, dead or alive.
func noZombie() {
	for {
		if _, err := sys.WaitidAny(sys.WaitEnd | sys.WaitPeek | sys.WaitNow); err == unix.ECHILD {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A supervisor that inherits orphans reaps all of them, and never takes an orphan for its own
// command, whose exit status stays exact.
func TestReapOrphans(t *testing.T) {
	for name, attr := range map[string]*syscall.SysProcAttr{
		"subreaper": {Setpgid: true},
		"namespace": {Setpgid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWUSER},
	} {
		t.Run(name, func(t *testing.T) {
			out, w := testenv.Report(t)
			argv, env := testenv.Self("reaper", name)
			cmd := exec.Command(argv[0], argv[1:]...)
			var messages bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = env, w, &messages, attr
			if err := cmd.Start(); err != nil {
				t.Skipf("no PID namespace here: %v", err) // the subreaper stands in
			}
			testenv.Started(cmd.Process.Pid)
			t.Cleanup(func() {
				syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				cmd.Wait()
				if t.Failed() {
					t.Log(messages.String())
				}
			})
			w.Close()
			out.Want("done")
		})
	}
}
