package trap

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/trap/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, map[string]func(args []string) int{
		"die":    dieMode,
		"events": eventsMode,
		"exited": exitedMode,
		"pipe":   pipeMode,
	})
}

// start starts a process and kills it at the end of the test.
func start(t *testing.T, argv, env []string, stdout, stderr *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Started(cmd.Process.Pid)
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
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
