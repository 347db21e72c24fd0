//go:build !linux

package main

import "syscall"

// dyingWithUs would make a process end when this program does; only Linux can.
func dyingWithUs() *syscall.SysProcAttr { return nil }
