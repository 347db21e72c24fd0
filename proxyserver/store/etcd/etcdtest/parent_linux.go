package etcdtest

import (
	"os/exec"
	"syscall"
)

// startWithParent starts cmd, which is killed when the test ends however it ends.
func startWithParent(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Start()
}
