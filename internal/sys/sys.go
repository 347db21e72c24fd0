// Package sys has the system calls of trap and of the packages below it that
// neither syscall nor golang.org/x/sys/unix offers, and the state that these
// packages share: waitid(2), the actions and masks of signals, the end of a
// process that is no child of ours, and the processes that this one has started.
package sys

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptors returns the descriptors of files for a new process, that of /dev/null for a nil
// file. done closes /dev/null.
func Descriptors(files ...*os.File) (fds []uintptr, done func(), err error) {
	var null *os.File
	done = func() {
		if null != nil {
			null.Close()
		}
	}
	for _, f := range files {
		if f == nil {
			if null == nil {
				if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
					return nil, done, err
				}
			}
			f = null
		}
		fds = append(fds, f.Fd())
	}
	return fds, done, nil
}

// PipeInode returns the inode number of the pipe fd; ok is false if fd is no pipe.
func PipeInode(fd uintptr) (inode uint64, ok bool) {
	var st unix.Stat_t
	if unix.Fstat(int(fd), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return 0, false
	}
	return st.Ino, true
}

// PollExit is [AwaitExit] by polling at the interval every, where the kernel does not tell of
// the process's end.
func PollExit(ctx context.Context, pid int, meant func() bool, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for meant() && !Gone(pid) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// RetryInterrupted repeats a system call that a signal cut short.
func RetryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
