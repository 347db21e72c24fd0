package child

import "syscall"

// setParentDeath has the kernel send sig when the thread that starts the process
// ends. The runtime's code after the fork covers the case that we are dead
// before the kernel knows of it.
func setParentDeath(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }
