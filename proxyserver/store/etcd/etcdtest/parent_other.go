//go:build !linux

package etcdtest

import "os/exec"

// startWithParent starts cmd. If the process of the test is killed, cmd goes on.
func startWithParent(cmd *exec.Cmd) error { return cmd.Start() }
