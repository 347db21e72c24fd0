package trap

import (
	"os"
	"syscall"
)

// Signals returns the signals that a program should forward to the command it runs: all that
// can be caught, except
//
//   - SIGCHLD, SIGURG and SIGPROF, which the kernel and the Go runtime send to this process for
//     its own use;
//   - SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE and SIGXFSZ, which answer an
//     act of this process: the command gets its own;
//   - SIGTSTP and SIGCONT, which package child forwards by itself, and SIGTTIN and SIGTTOU,
//     which must keep their default action: a background process that catches them tries to use
//     the terminal over and over again;
//   - those of [RareSignals].
func Signals() []os.Signal {
	return append([]os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	}, platformSignals...)
}

// RareSignals returns the other signals that a program should forward. They are hardly ever
// sent: timers, SIGIO, the warning of a CPU limit, and on Linux SIGPWR and the real-time
// signals 35 to 64. (The runtime keeps 32 to 34 for itself, 34 being SIGRTMIN for a program
// that uses glibc.) The runtime ignores them until the program listens to them. On Linux there
// are 35 of them, so a short program should listen to them late: see [Chain.Listen] for the
// cost of each.
func RareSignals() []os.Signal {
	return append([]os.Signal{
		syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGIO, syscall.SIGXCPU,
	}, platformRareSignals()...)
}
