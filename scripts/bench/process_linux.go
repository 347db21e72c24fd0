package main

import "syscall"

// dyingWithUs makes a process end when this program does, however it does.
func dyingWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
