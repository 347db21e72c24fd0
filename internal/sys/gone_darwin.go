package sys

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// StateZombie is SZOMB of sys/proc.h.
const StateZombie = 5

// Gone tells whether a process is a zombie or does not exist.
func Gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && p.Proc.P_stat == StateZombie
}
