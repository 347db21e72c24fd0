package main

import "syscall"

// dyingWithUs makes a process end together with this program, however this program ends.
func dyingWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
