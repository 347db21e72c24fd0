package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options of waitid(2), which Linux and macOS share.
const (
	WaitEnd  = unix.WEXITED
	WaitStop = unix.WSTOPPED
	WaitPeek = unix.WNOWAIT // keep the change, so that a further wait sees it
	WaitNow  = unix.WNOHANG // do not block; the answer may be empty
)

// From sys/wait.h and bits/siginfo-consts.h, the same on Linux and macOS.
const (
	allProcesses = 0 // P_ALL
	oneProcess   = 1 // P_PID

	codeStopped = 5 // CLD_STOPPED
)

// Pid returns the id of the process that waitid(2) reports on, 0 if it reports on none.
func (i Siginfo) Pid() int { return int(i.pid) }

// StopSignal returns the signal that stopped the process; ok is false unless waitid(2) reports
// a stop.
func (i Siginfo) StopSignal() (sig syscall.Signal, ok bool) {
	return syscall.Signal(i.status), i.code == codeStopped
}

// Waitid waits for a change of the child pid.
func Waitid(pid, options int) (Siginfo, error) { return waitid(oneProcess, pid, options) }

// WaitidAny waits for a change of any child.
func WaitidAny(options int) (Siginfo, error) { return waitid(allProcesses, 0, options) }

func waitid(kind, pid, options int) (Siginfo, error) {
	var info Siginfo
	err := RetryInterrupted(func() error {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(pid), uintptr(unsafe.Pointer(&info)), uintptr(options), 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
	return info, err
}
