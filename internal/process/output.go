package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
)

// ExitError says that a program failed.
type ExitError struct{ status unix.WaitStatus }

func (e *ExitError) Error() string { return describeEnd(e.status) }

// Code returns the exit code of the program, -1 if a signal ended it.
func (e *ExitError) Code() int { return e.status.ExitStatus() }

// Output runs a program to its end and returns what it wrote to its standard output. It is an
// error if the program fails (an [ExitError]), writes more than most bytes, or does not end before ctx does: then
// its process group is killed. args[0] is the path of the program, and is not searched for in PATH.
//
// The program is in a process group of its own, so that keys of the terminal do not reach it. Its
// standard input is /dev/null, its standard error ours, and its environment env.
func Output(ctx context.Context, args, env []string, most int) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	files, closeNull, err := sys.Descriptors(nil, w, os.Stderr)
	if err != nil {
		return nil, err
	}
	defer closeNull()
	pid, err := startAlone(args[0], args, &syscall.ProcAttr{
		Env: env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	w.Close() // so that the pipe ends with the program
	// What the program leaves behind may keep the pipe open.
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it did not end: %w", context.Cause(ctx))
	case err == nil && len(text) > most:
		err = fmt.Errorf("it wrote more than %d bytes", most)
	case err == nil:
		err = WaitExit(ctx, pid)
	}
	if err != nil {
		syscall.Kill(-pid, syscall.SIGKILL) // the zombie keeps the id of the group
	}
	status, _, reapErr := sys.Reap(pid)
	switch {
	case err != nil:
		return nil, err
	case reapErr != nil:
		return nil, reapErr
	case status != unix.WaitStatus(0):
		return nil, &ExitError{status}
	}
	return text, nil
}
