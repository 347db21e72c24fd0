package sys

// Siginfo is the part of siginfo_t (sigaction(2)) that waitid(2) fills in.
type Siginfo struct {
	signo, errno, code int32
	_                  [0]uintptr // aligns the union below, which has pointers in it
	pid, uid           int32
	status             int32 // the exit code or the signal
	_                  [128 - 32]byte
}
