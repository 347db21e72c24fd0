package storetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestMain makes this program a server if its only argument is "server".
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "server" {
		os.Stdout.WriteString("serves\n")
		time.Sleep(time.Hour) // until it is killed
		return
	}
	os.Exit(m.Run())
}

// A process runs until it is killed, and can then be started again. Its output is that of its last
// start.
func TestProcess(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var p Process
	p.Kill() // nothing
	for range 2 {
		if p.Running() {
			t.Error("a process that was not started runs")
		}
		if err := p.Start(exec.Command(os.Args[0], "server"), log); err != nil {
			t.Fatal(err)
		}
		defer p.Kill()
		for end := time.Now().Add(time.Minute); string(p.Output()) != "serves"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the process says %q", p.Output())
			}
		}
		p.Stop()
		p.Continue()
		if !p.Running() {
			t.Error("the process has ended")
		}
		p.Kill()
	}
}

// The end of a process is noticed, and what it has said stays.
func TestEnds(t *testing.T) {
	var p Process
	if err := p.Start(exec.Command(os.Args[0], "-no-such-flag"), filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	for end := time.Now().Add(time.Minute); p.Running(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process runs on")
		}
	}
	if len(p.Output()) == 0 {
		t.Error("the process has said nothing")
	}
}
