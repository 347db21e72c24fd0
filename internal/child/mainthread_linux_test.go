package child

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/testenv"
)

func init() {
	modes["mainless"] = mainlessMode
	if os.Getenv(testenv.ModeName) == "mainless" {
		runtime.LockOSThread() // the main goroutine stays on the main thread
	}
}

// mainlessMode ends its main thread, as pthread_exit(3) does, and reports signals in the others
// until the end of its input.
func mainlessMode([]string) int {
	go func() {
		os.Exit(reportSignals("mainless ", func() {
			for zombie := []byte(") Z "); ; time.Sleep(time.Millisecond) {
				if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getpid())); err != nil || bytes.Contains(stat, zombie) {
					return
				}
			}
		}))
	}()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	panic("unreachable")
}

// A process whose main thread has ended lives as long as its other threads: it has the grace
// period of a stop.
func TestStopOfAProcessWithoutItsMainThread(t *testing.T) {
	out, w := testenv.Report(t)
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	argv, env := testenv.Self("mainless")
	child := start(t, Command{Args: argv, Env: env, Stdin: in, Stdout: w})
	in.Close()
	w.Close()
	out.Want("mainless ready")
	child.Stop(syscall.SIGTERM, time.Hour)
	out.Want("mainless terminated")
	child.Signal(syscall.SIGUSR1)
	out.Want("mainless user defined signal 1")
	inW.Close()
	if s := wait(t, child); s.Code != 0 || s.Signal != 0 {
		t.Errorf("ended with %v, not by itself", s)
	}
}
