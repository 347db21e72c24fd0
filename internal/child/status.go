package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Status is how a child ended.
type Status struct {
	Code   int            // exit code, 0 to 255; 0 if a signal ended it
	Signal syscall.Signal // the signal that ended it, 0 if it exited

	// Terminal says that the child had a controlling terminal, whose keys send SIGINT and
	// SIGQUIT. If one of these ended the child, its starter should end by the same signal
	// (trap.Die): a shell that runs a script goes on after an exit code of 130, but stops after
	// a death by SIGINT if the shell got SIGINT as well.
	Terminal bool

	// Alone says that the child was the foreground of that terminal, and that neither
	// [Process.Signal] nor [Process.Stop] sent Signal: a key sent it to the child's group
	// alone. A starter that ends by Signal also sends it to its own group, as its last act,
	// since a process that gets it may kill the starter. A SIGINT that some other process sent
	// to the child looks the same.
	Alone bool
}

// ExitCode returns the exit code that a shell would report: the child's own, or 128+n if signal
// n ended it.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// newStatus turns the result of the wait for a child into a status. A child that
// other code of the program has reaped counts as failed.
func newStatus(ws unix.WaitStatus, err error) Status {
	switch {
	case err != nil:
		return Status{Code: 255}
	case ws.Signaled():
		return Status{Signal: ws.Signal()}
	default:
		return Status{Code: ws.ExitStatus()}
	}
}
