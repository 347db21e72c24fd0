package child

import "syscall"

// setParentDeath makes the kernel send sig when the thread that starts the process ends. If we
// die before that is set, the runtime's code in the new process notices it.
func setParentDeath(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }
