package trap

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options of waitid(2), and codes of its answer, which Linux and macOS share.
const (
	waitEnd  = unix.WEXITED
	waitStop = unix.WSTOPPED
	waitPeek = unix.WNOWAIT // what is seen can be waited for again
	waitNow  = unix.WNOHANG

	codeStopped = 5 // CLD_STOPPED

	processID = 1 // P_PID
)

// waitid waits for a change of a child. With waitNow the answer may be empty.
func waitid(pid, options int) (siginfo, error) {
	var info siginfo
	err := retryInterrupted(func() error {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, processID, uintptr(pid), uintptr(unsafe.Pointer(&info)), uintptr(options), 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	})
	return info, err
}

// retryInterrupted repeats a system call that a signal cut short.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
