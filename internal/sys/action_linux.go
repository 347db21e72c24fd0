package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Action is the kernel's struct sigaction (rt_sigaction(2)). The handler stands first on all
// architectures but MIPS. The rest differs, and is only ever passed back as it was received.
type Action struct {
	handler uintptr
	_       [56]byte
}

// Handlers that are no function, from signal(2).
const (
	defaultHandler = 0
	ignoreHandler  = 1
)

// Actions without a handler.
var (
	DefaultAction = Action{handler: defaultHandler}
	IgnoreAction  = Action{handler: ignoreHandler}
)

// Default tells whether this is the default action.
func (a Action) Default() bool { return a.handler == defaultHandler }

// Ignore tells whether the signal is ignored.
func (a Action) Ignore() bool { return a.handler == ignoreHandler }

// SetAction sets the action of a signal and returns the old one; a nil action changes nothing.
// The runtime does not learn of the change. It has no way of its own to give SIGTSTP or SIGQUIT
// back the default action.
func SetAction(sig syscall.Signal, action *Action) (old Action, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(&old)), kernelSigsetSize, 0, 0)
	if errno != 0 {
		return Action{}, errno
	}
	return old, nil
}

// kernelSigsetSize is the size of the kernel's sigset_t: a bit for each of 64
// signals.
const kernelSigsetSize = 8

// Pending tells whether a signal is blocked in this thread and pending.
func Pending(sig syscall.Signal) bool {
	var set unix.Sigset_t
	unix.RawSyscall(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&set)), kernelSigsetSize, 0)
	return set.Val[0]>>(uint(sig)-1)&1 != 0 // a word of a set has 32 bits at least
}
