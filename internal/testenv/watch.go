package testenv

import (
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Patience is much longer than any step takes on the slowest machine. Only a test that fails
// waits that long.
const Patience = time.Minute

// grace gives a step that fails by itself the time to say what it waited for.
const grace = 3 * time.Second

// impatient is set when a wait took all of Patience: the tests fail anyway, and the tests that
// come after fail fast.
var impatient atomic.Bool

// patience is how long a step may take.
func patience() time.Duration {
	if impatient.Load() {
		return time.Second
	}
	return Patience
}

// RanOut notes that a wait took all of its time.
func RanOut() { impatient.Store(true) }

var lastStep atomic.Int64 // nanoseconds of the wall clock

// step notes that a test goes on. Every helper of the package does so.
func step() { lastStep.Store(time.Now().UnixNano()) }

// watch ends the program when no test has made a step for too long.
func watch() {
	for time.Since(time.Unix(0, lastStep.Load())) < patience()+grace {
		time.Sleep(time.Second)
	}
	fmt.Fprintf(os.Stderr, "a test hangs: no step for %v\n", patience()+grace)
	pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	started.Lock()
	for _, pid := range started.groups {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	os.Exit(1)
}

// started are the process groups to kill when a test hangs.
var started struct {
	sync.Mutex
	groups []int
}

// Started registers a process group that a test has started.
func Started(group int) {
	step()
	started.Lock()
	defer started.Unlock()
	started.groups = append(started.groups, group)
}
