package trap

import (
	"os"
	"slices"
	"syscall"
)

// Signals returns the signals that a program should forward to the command it
// runs: all that can be caught, but
//
//   - SIGCHLD and SIGURG, with which the kernel and the Go runtime speak to this
//     very process, and SIGPROF, which drives Go's own profiles;
//   - SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE and SIGXFSZ, the
//     answer to what this very process just did: the command gets its own;
//   - SIGTSTP and SIGCONT, which a [Child] forwards by itself, and SIGTTIN and
//     SIGTTOU, which must keep their default action: a background process that
//     catches them tries to use the terminal over and over again;
//   - the real-time signals: see [RealTimeSignals].
func Signals() []os.Signal {
	signals := slices.Clone(platformSignals())
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGVTALRM,
		syscall.SIGWINCH, syscall.SIGIO,
		syscall.SIGXCPU, // batch systems send it as a warning
	} {
		signals = append(signals, sig)
	}
	return signals
}

// RealTimeSignals returns those of Linux that can be caught, 35 to 64; elsewhere
// there are none. The runtime keeps 32 to 34 for itself, 34 being SIGRTMIN for a
// program that uses glibc. They are more than all others together and hardly ever
// sent, so a short program does well to listen to them late: until then the
// runtime ignores them.
func RealTimeSignals() []os.Signal { return realTimeSignals() }
