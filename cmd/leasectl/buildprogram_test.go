package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built has the folder of the programs that build compiles. It exists until the tests end.
var built struct {
	sync.Mutex
	dir string
}

// build compiles leasectl as users have it, once for all tests. It leaves the race detector out,
// which would slow down the tests with hundreds of processes.
func build(t *testing.T, tags string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "leasectl-built-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	program := filepath.Join(built.dir, "leasectl"+tags)
	if exists(program) {
		return program
	}
	cmd := exec.Command("go", "build", "-tags", tags, "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}
