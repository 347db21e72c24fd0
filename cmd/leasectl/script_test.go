package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// TestMain lets the test binary stand in for leasectl, so that the scenarios run the code under
// test, with the race detector if the tests have it.
func TestMain(m *testing.M) {
	programs := map[string]func(){
		"leasectl":   main,
		"v1proxy":    versionOneProxy,
		"newerproxy": newerProxy,
		"makecert":   makeCertificate,
	}
	if programs[filepath.Base(os.Args[0])] == nil {
		useAllProcessors()
	}
	testscript.Main(heardTests{m}, programs)
}

// heardTests wraps the run of the tests in this process. The programs that the tests start do not
// use it.
type heardTests struct{ *testing.M }

func (m heardTests) Run() int { return clitest.Run(m.M.Run) }

// TestScripts runs the scenarios in testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Abs("../../scripts")
	if err != nil {
		t.Fatal(err)
	}
	messages := &seenMessages{documented: documentedMessages(t), seen: make(map[string]bool)}
	began := new(atomic.Int32)
	all, err := filepath.Glob("../../testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after all scenarios
		if int(began.Load()) < len(all) || t.Failed() {
			return
		}
		for _, stale := range messages.stale() {
			t.Errorf("docs/troubleshooting.md has a message that no scenario has seen: %s", stale)
		}
	})
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			began.Add(1)
			env.Setenv("SCRIPTS", scripts)
			env.Setenv("FORMAT1", filepath.Join(scripts, "../testdata/format1"))
			env.Setenv("GORACE", os.Getenv("GORACE"))
			// Each scenario has its own state directory, and a fixed owner whatever CI
			// system the tests run in.
			env.Setenv("LEASECTL_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("LEASECTL_OWNER", "job-1")
			env.Setenv("SOCKET", filepath.Join(env.WorkDir, "proxy.sock"))
			env.Setenv("PROXY", "unix://"+filepath.Join(env.WorkDir, "proxy.sock"))
			env.Setenv("GOCOVERDIR", os.Getenv("GOCOVERDIR"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     messages.exits,
			"explained": messages.explained,
			"waitfor":   waitFor,
			"issuer":    startIssuer,
			"mint":      mintToken,
		},
	})
}

// exits runs a command and compares its exit code. If leasectl printed a message, it must be in
// docs/troubleshooting.md.
//
//	exits 75 leasectl acquire --type full --wait-timeout 0
func (s *seenMessages) exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if stderr := ts.ReadFile("stderr"); strings.Contains(stderr, "leasectl: ") {
		s.check(ts, got, stderr)
	}
}

// explained checks that docs/troubleshooting.md has the message in stderr, of a command that ended
// with a code:
//
//	explained 77
func (s *seenMessages) explained(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: explained CODE")
	}
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	s.check(ts, code, ts.ReadFile("stderr"))
}

// waitFor blocks until a condition is true:
//
//	waitfor listening           the proxy at $SOCKET accepts connections
//	waitfor file PATH           the file is there
//	waitfor text PATH           the file has content
//	waitfor nofile PATH         it is not there
//	waitfor waiting TYPE N      N requests wait at $PROXY
//	waitfor following TYPE N    N requests have joined others at $PROXY
//	waitfor inuse TYPE N        N leases are held at $PROXY
//
// and the conditions of waitForServer.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	var so func() bool
	switch {
	case neg:
	case len(args) == 1 && args[0] == "listening":
		so = func() bool {
			conn, err := net.Dial("unix", ts.Getenv("SOCKET"))
			if err == nil {
				conn.Close()
			}
			return err == nil
		}
	case len(args) == 2 && args[0] == "text":
		so = func() bool {
			info, err := os.Stat(ts.MkAbs(args[1]))
			return err == nil && info.Size() > 0
		}
	case len(args) == 2 && (args[0] == "file" || args[0] == "nofile"):
		so = func() bool {
			_, err := os.Stat(ts.MkAbs(args[1]))
			return (err == nil) == (args[0] == "file")
		}
	case len(args) == 3 && (args[0] == "waiting" || args[0] == "following" || args[0] == "inuse"):
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		so = func() bool {
			p := askPool(ts, args[1])
			if p.Capacity == 0 {
				ts.Fatalf("the proxy has no pool %q", args[1])
			}
			switch args[0] {
			case "waiting":
				return p.Waiting == n
			case "following":
				return p.Following == n
			}
			return p.InUse == n
		}
	}
	if so == nil && !neg {
		so = waitForServer(ts, args)
	}
	if so == nil {
		ts.Fatalf("usage: see waitFor")
	}
	for end := time.Now().Add(clitest.Patience); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("waited in vain for %v", args)
		}
	}
}

// askPool asks the scenario's proxy for a pool; it returns zero if there is none.
func askPool(ts *testscript.TestScript, typ string) leaseapi.Pool {
	options := proxyclient.Options{URL: ts.Getenv("PROXY")}
	if file := ts.Getenv("LEASECTL_TOKEN_FILE"); file != "" {
		options.Token = strings.TrimSpace(ts.ReadFile(file))
	}
	client, err := proxyclient.New(options)
	ts.Check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), clitest.Patience)
	defer cancel()
	pools, err := client.Pools(ctx)
	ts.Check(err)
	for _, p := range pools {
		if p.Type == typ {
			return p
		}
	}
	return leaseapi.Pool{}
}
