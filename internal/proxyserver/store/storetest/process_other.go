//go:build !linux

package storetest

import "syscall"

// dieWithParent does nothing: if the process of the test is killed, its servers go on.
func dieWithParent(*syscall.SysProcAttr) {}

// children returns nothing: a signal reaches only the first process.
func children(int) []int { return nil }
