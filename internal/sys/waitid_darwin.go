package sys

// Siginfo is siginfo_t of sys/signal.h.
type Siginfo struct {
	signo, errno, code int32
	pid, uid           int32
	status             int32 // the exit code or the signal
	_                  [80]byte
}
