package trap

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var platformSignals []os.Signal // none

func platformRareSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGPWR}
	for sig := syscall.Signal(35); sig <= 64; sig++ {
		signals = append(signals, sig)
	}
	return signals
}

// sigaction is the kernel's struct sigaction (rt_sigaction(2)). The handler
// stands first on all architectures but MIPS; the rest, which differs, is only
// ever given back as it was got.
type sigaction struct {
	handler uintptr
	rest    [56]byte
}

// Handlers that are no function, from signal(2).
const (
	defaultAction = 0
	ignoreAction  = 1
)

// setAction sets what a signal does, behind the runtime's back, and returns
// what it did; a nil action only asks. The runtime has no way to give SIGTSTP
// or SIGQUIT back its default action.
func setAction(sig syscall.Signal, action *sigaction) (old sigaction, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(&old)), kernelSigsetSize, 0, 0)
	if errno != 0 {
		return sigaction{}, errno
	}
	return old, nil
}

// kernelSigsetSize is the size of the kernel's sigset_t: a bit for each of 64
// signals.
const kernelSigsetSize = 8

// pending tells whether a signal is blocked in this thread and waits there.
func pending(sig syscall.Signal) bool {
	var set unix.Sigset_t
	unix.RawSyscall(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&set)), kernelSigsetSize, 0)
	return set.Val[0]>>(uint(sig)-1)&1 != 0 // a word of a set has 32 bits at least
}

// blocked calls do with a signal blocked in the thread that it runs on. Unlike
// an action, a mask changes nothing for other threads, nor for what they start.
func blocked(sig syscall.Signal, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	set.Val[0] = 1 << (uint(sig) - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	}
	do()
}

// ignored tells whether this process ignores a signal.
func ignored(sig os.Signal) bool {
	if n, ok := sig.(syscall.Signal); ok {
		if action, err := setAction(n, nil); err == nil {
			return action.handler == ignoreAction
		}
	}
	return signal.Ignored(sig)
}
