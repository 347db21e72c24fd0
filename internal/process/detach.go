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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
)

// detached waits for the goroutines that reap background processes.
var detached sync.WaitGroup

// StartDetached starts a process that outlives this one, and blocks until the process calls
// [Ready]. It returns the process's id. If Ready was given an error, that is returned as a
// [FailedError]. It is also an error if the process or ctx ends first. After an error no
// process is left.
//
// args[0] is the path of the program, and is not searched for in PATH.
//
// The process is in a session of its own, without a terminal, in the directory /. Its standard
// input is /dev/null. Its standard output and error are log, or /dev/null if log is nil. It has
// no other descriptor of ours, not even one that we inherited. It keeps our umask. Its environment
// is env, in the form of [os.Environ], and nothing of ours: nil is an empty one.
//
// A goroutine reaps the process when it ends, if we live that long.
func StartDetached(ctx context.Context, args, env []string, log *os.File) (pid int, err error) {
	if len(args) == 0 {
		return 0, errors.New("start: no command")
	}
	path := args[0]
	r, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	defer r.Close()
	defer w.Close()
	files, closeNull, err := sys.Descriptors(nil, log, log, w)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	defer closeNull()
	pid, err = startAlone(path, args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   readyEnvironment(env, w),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	w.Close() // so that the pipe ends with the process

	if err := awaitReady(ctx, r, pid); err != nil {
		syscall.Kill(-pid, syscall.SIGKILL) // its whole group; the zombie keeps the id
		status, _, reapErr := sys.Reap(pid)
		if errors.Is(err, errSilent) && reapErr == nil {
			err = fmt.Errorf("%w (%s)", err, describeEnd(status))
		}
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	detached.Go(func() {
		WaitExit(context.Background(), pid) // unlike Reap, blocks no thread
		sys.Reap(pid)
	})
	return pid, nil
}

// startAlone starts a process that inherits no descriptor but those in attr. The runtime marks
// all descriptors that it opens close-on-exec. The descriptors that we inherited from a shell
// are marked for this start only, since the commands of package child get them, too.
func startAlone(path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	sys.ForkLock.Lock()
	defer sys.ForkLock.Unlock()
	inherited, err := inheritedDescriptors()
	if err != nil {
		return 0, err
	}
	for _, fd := range inherited {
		unix.CloseOnExec(fd)
	}
	defer func() {
		for _, fd := range inherited {
			unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		}
	}()
	return sys.StartProcess(path, args, attr)
}

// describeEnd says how a process ended.
func describeEnd(status unix.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("signal: %v", status.Signal())
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

// descriptorDir lists a process's own descriptors on Linux and macOS.
const descriptorDir = "/dev/fd"

// inheritedDescriptors returns the open descriptors above 2 that a program started from here
// would inherit.
func inheritedDescriptors() ([]int, error) {
	names, err := os.ReadDir(descriptorDir)
	if err != nil {
		return nil, fmt.Errorf("list open descriptors: %w", err)
	}
	var fds []int
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil || fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 { // on an error fd was the listing's own
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// A background process is given the write end of a pipe as descriptor 3, and
// the pipe's inode number in a variable. It writes one message, which ends with a
// zero byte:
//
//   - "+" 0x00         it is ready
//   - "-" TEXT 0x00    it is not ready, and TEXT says why; TEXT may be empty
//
// The inode number is checked before writing: a process may have inherited the
// variable alone, and have another file as descriptor 3.
const (
	readyFD   = 3
	readyName = "LEASECTL_READY_PIPE"

	// readyMax bounds a message, in bytes. An empty pipe always has room for that many
	// (pipe(7)), so the write does not block.
	readyMax = 4096

	messageReady  = "+"
	messageFailed = "-"
	messageEnd    = "\x00"
)

// errSilent says that a background process ended without a message.
var errSilent = errors.New("ended before it was ready")

// FailedError is the reason that a background process gave [Ready] for not being ready.
type FailedError string

func (e FailedError) Error() string { return string(e) }

var ready sync.Mutex

// Ready tells the process that waits in [StartDetached] that this one is ready or, with an
// error, why it will not be. Only the first call counts. In a process that StartDetached did
// not start, Ready does nothing. An error means that the starter has stopped waiting.
func Ready(failure error) error {
	ready.Lock()
	defer ready.Unlock()
	inode := os.Getenv(readyName)
	os.Unsetenv(readyName) // nobody waits for our own children
	if inode == "" || inode != pipeName(readyFD) {
		return nil
	}
	defer unix.Close(readyFD)
	message := messageReady
	if failure != nil {
		text := strings.ReplaceAll(failure.Error(), messageEnd, "")
		message = messageFailed + text[:min(len(text), readyMax-2)]
	}
	err := sys.RetryInterrupted(func() error {
		_, err := unix.Write(readyFD, []byte(message+messageEnd))
		return err
	})
	return os.NewSyscallError("write", err)
}

// pipeName returns the inode number of a pipe, as text; "" if fd is no pipe.
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
		r.SetReadDeadline(time.Unix(1, 0)) // in the past: ends the read
	})
	message, err := readMessage(r)
	cause := context.Cause(ctx) // before our own cancel
	cancel(nil)
	watch.Wait()

	if err != nil && cause == errSilent {
		message, err = readRest(r, message)
	}
	switch {
	case err == nil:
		if text, failed := strings.CutPrefix(message, messageFailed); failed {
			return FailedError(text)
		}
		return nil
	case cause != nil && cause != errSilent:
		return fmt.Errorf("wait until it is ready: %w", cause)
	}
	return errSilent
}

// readMessage reads until the end of the message. After an error it returns the
// part that it has read.
func readMessage(r *os.File) (string, error) {
	var message strings.Builder
	buf := make([]byte, readyMax)
	for {
		n, err := r.Read(buf)
		message.Write(buf[:n])
		if text, whole := strings.CutSuffix(message.String(), messageEnd); whole {
			return text, nil
		}
		if err != nil {
			return message.String(), err
		}
	}
}

// readRest reads the rest of the message of a process that has ended. It does not
// wait for other processes that hold the pipe.
func readRest(r *os.File, message string) (string, error) {
	conn, err := r.SyscallConn()
	if err != nil {
		return "", err
	}
	buf := make([]byte, readyMax)
	n := 0
	err = conn.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) }) // the pipe is non-blocking
	if text, whole := strings.CutSuffix(message+string(buf[:max(n, 0)]), messageEnd); whole && err == nil {
		return text, nil
	}
	return "", errSilent
}
