package child

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Status is how a child ended.
type Status struct {
	Code     int            // exit code, 0 to 255; 0 if a signal ended it
	Signal   syscall.Signal // what ended it, 0 if it exited
	CoreDump bool

	// Terminal says that the child had a controlling terminal to be interrupted
	// from. If then SIGINT or SIGQUIT ended it, its starter should [Die] of the
	// same: a shell that runs a script goes on after an exit code of 130, and
	// stops after a death by SIGINT.
	Terminal bool
}

// ExitCode is the exit code a shell would report: the child's own, or 128+n if
// signal n ended it.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

func (s Status) String() string {
	switch {
	case s.Signal == 0:
		return fmt.Sprintf("exit status %d", s.Code)
	case s.CoreDump:
		return fmt.Sprintf("signal: %v (core dumped)", s.Signal)
	default:
		return fmt.Sprintf("signal: %v", s.Signal)
	}
}

// newStatus makes a status of what the wait for a child returned. A stolen child
// (somebody else waited for every process) counts as failed.
func newStatus(ws unix.WaitStatus, err error) Status {
	switch {
	case err != nil:
		return Status{Code: 255}
	case ws.Signaled():
		return Status{Signal: ws.Signal(), CoreDump: ws.CoreDump()}
	default:
		return Status{Code: ws.ExitStatus()}
	}
}
