package main

import (
	"os"
	"syscall"
)

// dyingWithUs makes a process end together with this program, however this program ends.
func dyingWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// syncData is fdatasync(2).
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
