package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// job is the machine of a job: a directory, and an environment with little in it.
type job struct {
	t   *testing.T
	dir string
	env []string
}

// newJob makes one with leasectl in its PATH, behind commands of its own in dir/bin.
func newJob(t *testing.T, env ...string) *job {
	t.Helper()
	j := &job{t: t, dir: t.TempDir()}
	bin := filepath.Join(j.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(*program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(bin, "leasectl")); err != nil {
		t.Fatal(err)
	}
	j.env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + j.dir, "LEASECTL_STATE_DIR=" + filepath.Join(j.dir, "state")}, env...)
	return j
}

// command makes an executable of dir/name: a bash script.
func (j *job) command(name, script string) {
	j.t.Helper()
	path := write(j.t, filepath.Join(j.dir, name), "#!/usr/bin/env bash\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		j.t.Fatal(err)
	}
}

// run is a process of the job. It prints to a file: a pipe would be waited for, which what
// the process left behind may have.
type run struct {
	*exec.Cmd
	t     *testing.T
	log   string
	ended chan struct{}
}

func (r *run) printed() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		r.t.Error(err)
	}
	return string(text)
}

// start starts a process with further variables.
func (j *job) start(env []string, args ...string) *run {
	j.t.Helper()
	log, err := os.CreateTemp(j.t.TempDir(), "log")
	if err != nil {
		j.t.Fatal(err)
	}
	defer log.Close()
	r := &run{Cmd: exec.Command(args[0], args[1:]...), t: j.t, log: log.Name(), ended: make(chan struct{})}
	r.Dir, r.Env = j.dir, append(slices.Clone(j.env), env...)
	r.Stdout, r.Stderr = log, log
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.Start(); err != nil {
		j.t.Fatal(err)
	}
	go func() {
		r.Wait()
		close(r.ended)
	}()
	j.t.Cleanup(func() {
		syscall.Kill(-r.Process.Pid, syscall.SIGKILL)
		<-r.ended
	})
	return r
}

// code waits for the exit code, 128+n after a signal.
func (r *run) code() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatalf("%v does not end:\n%s", r.Args, r.printed())
	}
	if status := r.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return r.ProcessState.ExitCode()
}

// exits checks the exit code.
func (r *run) exits(want int) string {
	r.t.Helper()
	if got := r.code(); got != want {
		r.t.Errorf("%v: exit code %d, want %d:\n%s", r.Args, got, want, r.printed())
	}
	return r.printed()
}
