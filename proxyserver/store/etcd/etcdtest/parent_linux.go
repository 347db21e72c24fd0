package etcdtest

import (
	"os/exec"
	"syscall"
)

// startWithParent starts cmd. The kernel kills it when the process of the test ends in any way.
func startWithParent(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Start()
}
