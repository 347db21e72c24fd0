package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A row that fails leaves no command behind. The program is gone after its first start, so a later
// command cannot be started.
func TestFailedRowLeavesNoCommands(t *testing.T) {
	dir := t.TempDir()
	w := &world{leasectl: filepath.Join(dir, "leasectl"), dir: dir}
	pids := filepath.Join(dir, "pids")
	program := "#!/bin/sh\necho $$ >>'" + pids + "'\nrm -f \"$0\"\nexec sleep 60\n"
	if err := os.WriteFile(w.leasectl, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.sharedAcquires(context.Background(), "http://127.0.0.1:1", 1<<20, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d was left: %v", pid, err)
		}
	}
}
