package sys

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Blocked calls do with a signal blocked in the thread that do runs on. Unlike an action, a
// mask affects neither other threads nor the processes that they start.
func Blocked(sig syscall.Signal, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	set.Val[0] = 1 << (uint(sig) - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	}
	do()
}
