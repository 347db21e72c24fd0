package trap

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, map[string]func(args []string) int{
		"die":    dieMode,
		"events": eventsMode,
		"exited": exitedMode,
		"pipe":   pipeMode,
	})
}

// wait waits for the end of a process and says how it ended.
func wait(t *testing.T, cmd *exec.Cmd) syscall.WaitStatus {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	testenv.Receive(t, ended)
	return cmd.ProcessState.Sys().(syscall.WaitStatus)
}
