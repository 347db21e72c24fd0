package sys

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitExit blocks until the process pid has ended, and returns nil, or until ctx has ended,
// and returns its cause. It waits for a pidfd; where the kernel gives none, it polls at the
// interval every.
//
// If meant returns false, pid is another process by now, and AwaitExit returns nil. It calls
// meant after it has opened the pidfd, so that the pid cannot be reused between the call and
// the wait.
func AwaitExit(ctx context.Context, pid int, meant func() bool, every time.Duration) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch err {
	case nil:
	case unix.ESRCH:
		return nil
	default: // an old kernel, a sandbox, no descriptor or memory for it now
		return PollExit(ctx, pid, meant, every)
	}
	if !meant() || readable(fd) {
		unix.Close(fd)
		return nil
	}
	// os.NewFile hands only non-blocking descriptors to the runtime's poller.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return fmt.Errorf("wait for process %d: %w", pid, os.NewSyscallError("fcntl", err))
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if err := awaitReadable(ctx, f); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("wait for process %d: %w", pid, err)
	}
	return nil
}

// readable tells whether a pidfd can be read, which means that its process has ended.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	err := RetryInterrupted(func() error {
		_, err := unix.Poll(fds, 0)
		return err
	})
	return err == nil && fds[0].Revents != 0
}

// awaitReadable blocks until the pidfd f can be read, or until ctx ends.
func awaitReadable(ctx context.Context, f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		f.SetReadDeadline(time.Unix(1, 0)) // in the past: ends the read
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()
	return conn.Read(func(fd uintptr) bool { return readable(int(fd)) })
}
