package process

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/trap/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, map[string]func(args []string) int{
		"daemon":  daemonMode,
		"starter": starterMode,
	})
}

// start starts a process with a group of its own, and kills that at the end of
// the test.
func start(t *testing.T, argv, env []string, stdin, stdout *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if stdout != nil {
		cmd.Stdout = stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Started(cmd.Process.Pid)
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	return cmd
}

// awaitReaped waits until the background processes that have ended are reaped.
func awaitReaped(t *testing.T) {
	t.Helper()
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		detached.Wait()
	}()
	testenv.Receive(t, reaped)
}
