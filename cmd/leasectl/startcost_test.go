package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/cmd/leasectl/early"
)

// Packages that only a server needs initialise nothing at the start of the program, since each
// command would pay for it.
func TestStartMakesNothingForTheServer(t *testing.T) {
	t.Parallel()
	trace := startTrace(t)
	for _, name := range []string{"pool", "proxyserver/metrics", "proxyserver/store", "proxyserver/store/record", "proxyserver/store/bolt", "proxyserver/store/etcd", "proxyserver/store/replicated", "proxyserver/store/postgres", "proxyserver/auth", "proxyserver/config", "proxyserver/past", "proxyserver/ui"} {
		if strings.Contains(trace, initOf("internal/"+name)) {
			t.Errorf("%s makes something at the start of every command", name)
		}
	}
}

// A command has one processor. A server has all that the machine or GOMAXPROCS gives it, and one
// more if it waits for a disk.
func TestServeUsesAllProcessors(t *testing.T) {
	t.Parallel()
	forDisk := 1
	if os.Getenv("GOMAXPROCS") != "" { // of the tests, and so of this server
		forDisk = 0
	}
	for _, c := range []struct {
		before string
		data   string
		want   int
	}{
		{"", "", early.Processors},
		{"export GOMAXPROCS=3", "", 3},
		{"", t.TempDir(), early.Processors + forDisk},
		{"export GOMAXPROCS=5", t.TempDir(), 5},
	} {
		s := startServer(t, clitest.Build(t, ""), c.before, "--data", c.data)
		if line := fmt.Sprintf("\ngo_sched_gomaxprocs_threads %d\n", c.want); !strings.Contains(metricsOf(t, http.DefaultClient, s.url), line) {
			t.Errorf("%q, --data %q: it does not say%s", c.before, c.data, line)
		}
	}
}

// initOf returns the beginning of the trace's line about a package of ours.
func initOf(name string) string { return "init github.com/leasectl/leasectl/" + name + " @" }

// startTrace returns the runtime's trace of the initialisation of packages, in their order.
func startTrace(t *testing.T) string {
	cmd := exec.Command(clitest.Build(t, ""), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(trace.String(), "init net/http @") {
		t.Fatalf("the runtime does not tell what is made:\n%s", &trace)
	}
	return trace.String()
}
