package trap

// siginfo is siginfo_t of sys/signal.h.
type siginfo struct {
	signo, errno, code int32
	pid, uid           int32
	status             int32 // the exit code or the signal
	_                  [80]byte
}
