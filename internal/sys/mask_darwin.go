package sys

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From sys/signal.h.
const (
	sigBlock   = 1
	sigSetMask = 3
)

// Blocked calls do with a signal blocked in the thread that do runs on. Unlike an action, a
// mask affects neither other threads nor the processes that they start.
func Blocked(sig syscall.Signal, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set, old := uint32(1)<<(uint(sig)-1), uint32(0)
	mask := func(how uintptr, set, old *uint32) syscall.Errno {
		_, _, errno := unix.RawSyscall(unix.SYS___PTHREAD_SIGMASK, how, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)))
		return errno
	}
	if mask(sigBlock, &set, &old) == 0 {
		defer mask(sigSetMask, &old, nil)
	}
	do()
}
