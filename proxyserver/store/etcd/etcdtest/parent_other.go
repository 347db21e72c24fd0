//go:build !linux

package etcdtest

import "os/exec"

// startWithParent starts cmd; after a test that was killed it goes on.
func startWithParent(cmd *exec.Cmd) error { return cmd.Start() }
