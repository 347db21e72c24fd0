package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/cmd/leasectl/demo"
)

// demoRun is a demo in a world of its own: without PATH, and with a folder for temporary files.
type demoRun struct {
	*world
	cmd    *exec.Cmd
	output *clitest.LiveLog
}

func startDemoRun(t *testing.T) *demoRun {
	t.Helper()
	w := newBareWorld(t, clitest.BuildAsTests(t))
	output := w.Log
	if err := os.Mkdir(filepath.Join(w.Dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := &demoRun{w, exec.Command(w.Program, "demo", "--speed", "8"), output}
	d.cmd.Env = []string{"TMPDIR=" + filepath.Join(w.Dir, "tmp"), "GORACE=" + os.Getenv("GORACE"), "LEASECTL_OWNER=somebody", "http_proxy=http://192.0.2.1:1"}
	d.cmd.Stdout, d.cmd.Stderr = output, output
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // on a terminal an INT is a key, and has no exit code
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// nothingLeft waits until no process and no file of the demo is left, and checks that nobody
// listens at its address.
func (d *demoRun) nothingLeft() {
	d.T.Helper()
	d.NoneLeft()
	d.Await("the files to go", func() bool {
		left, err := os.ReadDir(filepath.Join(d.Dir, "tmp"))
		return err == nil && len(left) == 0
	})
	if resp, err := http.Get(d.url()); err == nil {
		resp.Body.Close()
		d.T.Errorf("somebody listens at %s still", d.url())
	}
}

// url returns the address that the demo has printed.
func (d *demoRun) url() string {
	return regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`).FindString(d.output.String())
}

// The demo says what happens, shows it in a browser, ends by itself and leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := startDemoRun(t)
	d.Await("a job", func() bool {
		return strings.Contains(d.output.String(), "job-1 | leasectl: acquired install-0 for job-1\n")
	})
	resp, err := http.Get(d.url())
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(page), `href="/ui/pools/install"`) {
		t.Errorf("no page of the pools: %v\n%s", err, page)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, d.output)
	}
	// What one says is in order; the lines of two may change places.
	for who, lines := range map[string][]string{
		"job-1": {"acquired install-0 for job-1", "released install-0, 1s after it was acquired; the command goes on"},
		"job-2": {"acquired install-1 for job-2"},
		"job-3": {"acquired install-0 for job-3", "attempt 1 of 2 ended with exit code 4: trying again", "acquired install-1 for job-3", "released install-1"},
		"job-4": {"acquired install-0 for job-4", "released install-0"},
		"job-6": {"acquired memory-3 for job-6", "released memory-3"},
		"job-7": {"acquired memory-2 for job-7", "released memory-2"},
		"job-9": {`leasectl runs without a lease: no lease of type "deploy" within 500ms `},
		"proxy": {"install-1 of job-2 has ended: it was not renewed in time", "job-6 waits", "job-9 waits"},
	} {
		var said strings.Builder
		for line := range strings.Lines(d.output.String()) {
			if is, line, _ := strings.Cut(line, " | "); strings.TrimSpace(is) == who {
				said.WriteString(line)
			}
		}
		rest := said.String()
		for _, want := range lines {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s does not say, or says too early, %q\n%s", who, want, d.output)
			}
			rest = after
		}
	}
	if !strings.Contains(d.output.String(), "\n      install  0/2     0 ") {
		t.Errorf("leases are left\n%s", d.output)
	}
	d.nothingLeft()
}

// A demo that is ended early, also by a KILL, leaves nothing behind.
func TestDemoEndedEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sig  syscall.Signal
		code int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGKILL, -1}} {
		t.Run(c.sig.String(), func(t *testing.T) {
			t.Parallel()
			d := startDemoRun(t)
			// Two work and two wait.
			d.Await("the jobs", func() bool { return strings.Contains(d.output.String(), "| job-4 waits") })
			if err := d.cmd.Process.Signal(c.sig); err != nil {
				t.Fatal(err)
			}
			d.cmd.Wait()
			if code := d.cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if said := strings.Contains(d.output.String(), "Ended early. Nothing is left of the demo.\n"); said != (c.sig != syscall.SIGKILL) {
				t.Errorf("the end: %t\n%s", said, d.output)
			}
			d.nothingLeft()
		})
	}
}

// A demo whose sweeper was killed does not say that nothing is left.
func TestDemoUnswept(t *testing.T) {
	t.Parallel()
	d := startDemoRun(t)
	d.Await("the jobs", func() bool { return strings.Contains(d.output.String(), "| job-4 waits") })
	for _, pid := range d.Processes() {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(line, []byte("\x00--sweep\x00")) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	d.cmd.Wait()
	left, _ := filepath.Glob(filepath.Join(d.Dir, "tmp", demo.Prefix+"*"))
	if len(left) != 1 || !strings.Contains(d.output.String(), "Ended early. But files of the demo may be left in "+left[0]+".\n") {
		t.Errorf("%q is left, and it is said:\n%s", left, d.output)
	}
}
