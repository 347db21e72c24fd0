package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Packages that only a server needs, and that have nothing to make when the program
// begins, stay so: each command would pay for it.
func TestStartMakesNothingForTheServer(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(build(t, ""), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(trace.String(), "init net/http @") {
		t.Fatalf("the runtime does not tell what is made:\n%s", &trace)
	}
	for _, name := range []string{"pool", "proxyserver/promtext", "proxyserver/store", "proxyserver/store/record", "proxyserver/store/etcd", "proxyserver/config"} {
		if strings.Contains(trace.String(), "init github.com/leasectl/leasectl/"+name+" @") {
			t.Errorf("%s makes something at the start of every command", name)
		}
	}
}

// A command runs on one processor, a server on all that the environment allows.
func TestProcessors(t *testing.T) {
	t.Parallel()
	leasectl := build(t, "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"exec", "--type", "t", "--", "sleep", "5"}, "gomaxprocs=1 "},
		{[]string{"serve", "--listen", "127.0.0.1:0", "--pool", "t=1"}, "gomaxprocs=3 "},
	} {
		cmd := exec.CommandContext(t.Context(), leasectl, c.args...)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=3", "GODEBUG=schedtrace=50", "LEASE_PROXY_SERVER_URL=")
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		found := false
		lines := bufio.NewScanner(stderr)
		for n := 0; n < 40 && !found && lines.Scan(); n++ {
			// The first line is of before main.
			found = strings.HasPrefix(lines.Text(), "SCHED ") && !strings.HasPrefix(lines.Text(), "SCHED 0ms") && strings.Contains(lines.Text(), c.want)
		}
		cmd.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, stderr)
		cmd.Wait()
		if !found {
			t.Errorf("%v: never said %s", c.args, c.want)
		}
	}
}
