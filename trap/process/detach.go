package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/trap/internal/sys"
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
