package sys

import "golang.org/x/sys/unix"

// RetryInterrupted repeats a system call that a signal cut short.
func RetryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
