package clitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
)

// built has the folder of the programs that the tests of a package have built. It exists until the
// tests end.
var built struct {
	sync.Mutex
	dir string
}

// Build returns the path of leasectl as users have it, with tags of the go command. It leaves the
// race detector out, which would slow down the tests with hundreds of processes.
func Build(t *testing.T, tags string) string {
	t.Helper()
	return build(t, "leasectl"+tags, "CGO_ENABLED=0", "-tags", tags)
}

// BuildAsTests returns the path of a leasectl that has the race detector if the tests have it.
func BuildAsTests(t *testing.T) string {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return Build(t, "")
	}
	return build(t, "race/leasectl", "CGO_ENABLED=1", "-race")
}

// build compiles leasectl, once for all tests of a package. For all packages it is linked once: go
// run keeps the programs that it links in the cache of builds, which go build does not. cp copies
// the program in place of running it.
func build(t *testing.T, name, env string, flags ...string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "leasectl-built-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
		makeRunnable(t, dir)
	}
	program := filepath.Join(built.dir, name)
	if Exists(program) {
		return program
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "-exec", "cp"}, flags...)
	cmd := exec.Command("go", append(args, "github.com/leasectl/leasectl/cmd/leasectl", program)...)
	cmd.Env = append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	makeRunnable(t, program)
	return program
}

// makeRunnable lets tests run a program as another user, whatever the umask.
func makeRunnable(t *testing.T, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}
