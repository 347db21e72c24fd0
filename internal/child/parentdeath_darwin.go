package child

import "syscall"

// setParentDeath does nothing: macOS has no such signal.
func setParentDeath(*syscall.SysProcAttr, syscall.Signal) {}
