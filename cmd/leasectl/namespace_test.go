package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// Two PID namespaces share a state directory, as two containers of one machine may. A pid means
// different processes in them. Nevertheless recover tells living from dead processes, in both
// directions.
func TestJournalBetweenPIDNamespaces(t *testing.T) {
	unshare := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no PID namespaces here: %v: %s", err, out)
	}
	w := newWorld(t, clitest.Build(t, ""), "install=2")
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command(unshare[0], append(append(unshare[1:len(unshare):len(unshare)], w.Program), args...)...)
		cmd.Dir, cmd.Env = w.Dir, w.Env
		return cmd
	}
	hold := []string{"exec", "--parent-death", "KILL", "--type", "install", "--", "sleep", "600"}

	here, there := w.Command(hold...), inside(hold...)
	for _, cmd := range []*exec.Cmd{here, there} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	w.Await("both to hold a lease", func() bool { return w.Pool("install").InUse == 2 })
	if out := w.Run(0, "recover"); out != "" {
		t.Errorf("recover here took a living process for dead: %s", out)
	}
	if out, err := inside("recover").Output(); err != nil || len(out) > 0 {
		t.Errorf("recover there took a living process for dead: %s%v", out, err)
	}

	here.Process.Kill()
	here.Wait()
	out, err := inside("recover").Output()
	if err != nil || !strings.HasPrefix(string(out), "released install-") {
		t.Errorf("recover there, after the process here was killed: %s%v", out, err)
	}
	there.Process.Kill() // unshare, and with it all processes inside
	there.Wait()
	// A process that ends has its locks for a moment longer than its program in /proc.
	var settled string
	w.Await("recover here to settle for the killed process there", func() bool {
		settled = w.Run(0, "recover")
		return settled != ""
	})
	if !strings.HasPrefix(settled, "released install-") {
		t.Errorf("recover here, after the process there was killed: %s", settled)
	}
	if n := w.Pool("install").InUse; n != 0 {
		t.Errorf("%d leases are still held", n)
	}
}

// A shared lease treats two time namespaces as two machines: the deadline in its record is a time
// since boot, and the namespaces' clocks disagree about it. Before, a command that joined from the
// other namespace never renewed, and went on after its lease had ended.
func TestSharedBetweenTimeNamespaces(t *testing.T) {
	t.Parallel()
	unshare := []string{"unshare", "--time", "--fork", "--kill-child", "--boottime", "1000000"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no time namespaces here: %v: %s", err, out)
	}
	w := newWorld(t, clitest.Build(t, ""), "one=2")
	hold := []string{"exec", "--type", "one", "--shared", "S", "--parent-death", "KILL", "--", "sleep", "600"}
	here, there := w.Command(hold...), w.Command(hold...)
	there.Path, there.Args = "/usr/bin/env", append(append([]string{"env"}, unshare...), there.Args...)
	for _, cmd := range []*exec.Cmd{there, here} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Signal(syscall.SIGKILL); cmd.Wait() }()
		w.Await("a command to run", func() bool { return w.Pool("one").InUse > 0 })
	}
	w.Await("each to have a lease of its own", func() bool { return w.Pool("one").InUse == 2 })
}
