package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// newCgroup makes a cgroup v2 that counts memory, below the cgroup of the tests. If it cannot make
// one, it skips the test; TestPeakOfCgroup of package child tests the rules with made-up files.
func newCgroup(t *testing.T) (dir string) {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skipf("no cgroups here: %v", err)
	}
	_, path, found := strings.Cut("\n"+string(groups), "\n0::")
	if !found {
		t.Skipf("no cgroup v2 here: %q", groups)
	}
	path, _, _ = strings.Cut(path, "\n")
	parent := filepath.Join("/sys/fs/cgroup", path)
	if _, err := os.Stat(filepath.Join(parent, "cgroup.controllers")); err != nil {
		t.Skipf("cgroup v2 is not what is mounted here: %v", err)
	}
	dir = filepath.Join(parent, fmt.Sprintf("leasectl-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		// A cgroup can be removed only a moment after its last process has ended.
		for end := time.Now().Add(clitest.Patience); os.Remove(dir) != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s is still in use", dir)
				return
			}
		}
	})
	if _, err := os.Stat(filepath.Join(dir, "memory.peak")); err == nil {
		return dir
	}
	control := filepath.Join(parent, "cgroup.subtree_control")
	if err := os.WriteFile(control, []byte("+memory"), 0); err != nil {
		t.Skipf("cgroups here count no memory: %v", err)
	}
	t.Cleanup(func() { os.WriteFile(control, []byte("-memory"), 0) })
	if _, err := os.Stat(filepath.Join(dir, "memory.peak")); err != nil {
		t.Skipf("this kernel tells no peak: %v", err)
	}
	return dir
}

// In a cgroup of its own, exec reports the peak of all processes of its command together. If
// another process shares the cgroup, exec reports the peak of the command's largest process.
func TestPeakOfRealCgroup(t *testing.T) {
	t.Parallel()
	dir := newCgroup(t)
	config := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(config, []byte("resources: [{type: mem, units: 64, unit: 1Mi}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, clitest.Build(t, ""), "--config", config)
	// Two shells of 32 MiB each, which run at the same time.
	const command = `for i in 1 2; do
  { a=$(head -c 33554432 /dev/zero | tr '\0' x); touch "$1/up-$i"; until test -e "$1/up-1" -a -e "$1/up-2"; do sleep 0.01; done; : "$a"; } &
done
wait`
	peak := func(want string) (mebibytes int) {
		t.Helper()
		exe := w.Command("exec", "--type", "mem", "--", "sh", "-c", command, "sh", t.TempDir())
		exe.Args = append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, dir, exe.Path}, exe.Args[1:]...)
		exe.Path = "/bin/sh"
		var stderr bytes.Buffer
		exe.Stderr = &stderr
		if err := exe.Run(); err != nil {
			t.Fatalf("%v\n%s", err, &stderr)
		}
		said := regexp.MustCompile(`peak memory of the command: ([0-9]+) MiB \(its (.+)\)`).FindStringSubmatch(stderr.String())
		if said == nil || said[2] != want {
			t.Fatalf("it said\n%s\nwant the peak of its %s", &stderr, want)
		}
		mebibytes, _ = strconv.Atoi(said[1])
		return mebibytes
	}
	if together := peak("cgroup"); together < 64 || together > 1024 {
		t.Errorf("the cgroup had %d MiB at most", together)
	}
	other := exec.Command("sleep", "100")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(other.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if largest := peak("largest process"); largest < 32 || largest > 1024 {
		t.Errorf("the largest process had %d MiB", largest)
	}
}
