package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/trap/internal/sys"
)

// A background process is given the write end of a pipe as descriptor 3, and
// the pipe's inode number in a variable. It writes one message:
//
//   - 0x00         ready
//   - TEXT 0x00    not ready, and why
//
// The number tells this pipe from whatever else may be descriptor 3 of a process
// that merely inherited the variable.
const (
	readyFD   = 3
	readyName = "LEASECTL_READY_PIPE"

	// readyMax is what an empty pipe always has room for (pipe(7)), so that
	// nobody blocks who says that he is ready.
	readyMax = 4096
)

// errSilent says that a background process ended without a message.
var errSilent = errors.New("ended before it was ready")

var ready sync.Mutex

// Ready tells the process that waits in [StartDetached] that this one is ready,
// or with an error that it will not be. Only the first call counts; it does
// nothing in a process that StartDetached did not start. An error means that
// nobody is waiting any more.
func Ready(failure error) error {
	ready.Lock()
	defer ready.Unlock()
	inode := os.Getenv(readyName)
	os.Unsetenv(readyName) // our own children are not waited for
	if inode == "" || inode != pipeName(readyFD) {
		return nil
	}
	defer unix.Close(readyFD)
	message := "+"
	if failure != nil {
		text := strings.ReplaceAll(failure.Error(), "\x00", "")
		message = "-" + text[:min(len(text), readyMax-2)]
	}
	err := sys.RetryInterrupted(func() error {
		_, err := unix.Write(readyFD, []byte(message+"\x00"))
		return err
	})
	return os.NewSyscallError("write", err)
}

// pipeName names a pipe by its inode number; it is empty if fd is none.
func pipeName(fd uintptr) string {
	inode, ok := sys.PipeInode(fd)
	if !ok {
		return ""
	}
	return strconv.FormatUint(inode, 10)
}

// readyEnvironment returns env for a process that gets the pipe w.
func readyEnvironment(env []string, w *os.File) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, readyName+"=") })
	return append(env, readyName+"="+pipeName(w.Fd()))
}

// awaitReady waits for the message of process pid. The end of the process ends
// the wait, even if a child of it still holds the pipe.
func awaitReady(ctx context.Context, r *os.File, pid int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if WaitExit(ctx, pid) == nil {
			cancel(errSilent)
		}
		<-ctx.Done()
		r.SetReadDeadline(time.Unix(1, 0)) // long ago: ends the read
	})
	message, err := readMessage(r)
	cause := context.Cause(ctx) // before our own cancel
	cancel(nil)
	watch.Wait()

	if err != nil && cause == errSilent {
		message, err = readRest(r, message)
	}
	switch {
	case err == nil && strings.HasPrefix(message, "-"):
		return errors.New(message[1:])
	case err == nil:
		return nil
	case cause != nil && cause != errSilent:
		return fmt.Errorf("wait until it is ready: %w", cause)
	}
	return errSilent
}

// readMessage reads until the end of the message. After an error it returns what
// it has.
func readMessage(r *os.File) (string, error) {
	var message strings.Builder
	buf := make([]byte, readyMax)
	for {
		n, err := r.Read(buf)
		message.Write(buf[:n])
		if text, whole := strings.CutSuffix(message.String(), "\x00"); whole {
			return text, nil
		}
		if err != nil {
			return message.String(), err
		}
	}
}

// readRest reads what a process has left in the pipe that has ended. It does not
// wait for others that may hold the pipe.
func readRest(r *os.File, message string) (string, error) {
	conn, err := r.SyscallConn()
	if err != nil {
		return "", err
	}
	buf := make([]byte, readyMax)
	n := 0
	err = conn.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) }) // the pipe is non-blocking
	if text, whole := strings.CutSuffix(message+string(buf[:max(n, 0)]), "\x00"); whole && err == nil {
		return text, nil
	}
	return "", errSilent
}
