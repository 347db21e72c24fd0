//go:build !linux

package pgtest

import "syscall"

// dieWithParent does nothing: if the process of the test is killed, PostgreSQL goes on.
func dieWithParent(*syscall.SysProcAttr) {}

// children returns nothing: a signal reaches only the first process.
func children(int) []int { return nil }
