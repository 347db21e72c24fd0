package sys

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ForkLock is held for reading while a process starts. A writer keeps processes from starting
// while it changes descriptors or actions that a new process inherits, or looks for children
// that have ended. [syscall.ForkLock] cannot do that: syscall.StartProcess takes it, so a
// caller cannot hold it around a change and a start of its own.
var ForkLock sync.RWMutex

// children are the processes that StartProcess started and Reap has not reaped,
// each with a channel that Reap closes.
var children sync.Map // pid int → reaped chan struct{}

// StartProcess is [syscall.StartProcess] for a process that is later reaped by
// [Reap]. The caller holds [ForkLock].
func StartProcess(path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	pid, _, err = syscall.StartProcess(path, args, attr)
	if err == nil {
		children.Store(pid, make(chan struct{}))
	}
	return pid, err
}

// Reap blocks until a process that [StartProcess] started has ended, and removes its zombie:
// from then on another process may get its id.
func Reap(pid int) (status unix.WaitStatus, usage unix.Rusage, err error) {
	if _, err := Waitid(pid, WaitEnd|WaitPeek); err != nil {
		return 0, usage, err
	}
	ForkLock.RLock() // a writer sees a zombie and its entry, or neither
	defer ForkLock.RUnlock()
	err = RetryInterrupted(func() error {
		_, err := unix.Wait4(pid, &status, 0, &usage)
		return err
	})
	if reaped, ok := children.LoadAndDelete(pid); ok {
		close(reaped.(chan struct{}))
	}
	return status, usage, err
}

// Started tells whether [StartProcess] started a process that is not reaped yet, and returns a
// channel that is closed when the process is reaped.
func Started(pid int) (reaped <-chan struct{}, ok bool) {
	c, ok := children.Load(pid)
	if !ok {
		return nil, false
	}
	return c.(chan struct{}), true
}
