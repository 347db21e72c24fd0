package main

import (
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// The shell that started a keeper exits, and the terminal of both hangs up. The owner process lives
// on elsewhere, like a CI runner's step. The keeper stays, and gives the lease back when the owner
// process ends.
func TestKeeperOutlivesShellAndTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	owner, kill := w.Owner()
	// After the shell's exit a job of the shell still has the terminal.
	shell := exec.Command("sh", "-c", `"$0" acquire --type install --handle h --owner-pid "$1"; sleep 600 & echo "job $!"`, w.Program, strconv.Itoa(owner))
	shell.Dir, shell.Env = w.Dir, w.Env
	terminal, err := pty.Start(shell) // in a session of its own
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for buf := make([]byte, 512); !strings.Contains(said.String(), "job "); {
		n, err := terminal.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("the shell said %q: %v", &said, err)
		}
	}
	if err := shell.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	keeper := w.keeperPID(w.Path("h"))
	terminal.Close() // SIGHUP to the rest of the session
	if _, err := io.ReadAll(terminal); err == nil {
		t.Error("the terminal can still be read")
	}
	// This command takes longer than the SIGHUP would need to end the keeper.
	w.Run(0, "renew", "--handle", "h")
	if !clitest.Lives(keeper) || w.Pool("install").InUse != 1 {
		t.Errorf("the keeper lives: %t; %d leases are held", clitest.Lives(keeper), w.Pool("install").InUse)
	}
	kill()
	w.Await("the lease to be free", func() bool { return w.Pool("install").InUse == 0 })
	w.Await("the keeper to end", func() bool { return !clitest.Lives(keeper) })
}

// If the end of its terminal kills a shell with its whole session, the keeper survives until it has
// given the lease back.
func TestKeeperGivesBackAfterAHangUp(t *testing.T) {
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	shell := exec.Command("sh", "-c", "'"+w.Program+"'"+` acquire --type install --handle h --owner-pid $$ >/dev/null; echo up; read line`)
	shell.Dir, shell.Env = w.Dir, w.Env
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	pid := w.keeperPID(w.Path("h"))
	syscall.Kill(-shell.Process.Pid, syscall.SIGHUP)
	shell.Wait()
	w.Await("the lease to be free", func() bool { return w.Pool("install").InUse == 0 })
	w.Await("the keeper to end", func() bool { return !clitest.Lives(pid) })
}
