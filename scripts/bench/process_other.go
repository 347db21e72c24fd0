//go:build !linux

package main

import "syscall"

// dyingWithUs does nothing here: only Linux can end a process together with this program.
func dyingWithUs() *syscall.SysProcAttr { return nil }
