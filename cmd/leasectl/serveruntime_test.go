package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryOfCgroups(t *testing.T) {
	mount := t.TempDir()
	for file, text := range map[string]string{
		"memory.max": "max\n", "a/memory.max": "3000\n", "a/b/memory.max": "max\n", "c/memory.max": "0\n",
		"memory/memory.limit_in_bytes": "2000\n", "memory/x/memory.limit_in_bytes": "9223372036854771712\n",
	} {
		os.MkdirAll(filepath.Join(mount, filepath.Dir(file)), 0o755)
		if err := os.WriteFile(filepath.Join(mount, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for cgroups, want := range map[string]int64{
		"":                           math.MaxInt64,
		"nonsense\n":                 math.MaxInt64,
		"0::/\n":                     math.MaxInt64,
		"0::/a/b\n":                  3000,
		"0::/c\n":                    math.MaxInt64,
		"4:memory:/x\n0::/\n":        2000,
		"4:memory:/of/machine\n":     2000, // the mount is the container's own
		"1:cpu:/a\n0::/../../a/b/\n": 3000,
	} {
		if got := memoryOf(mount, cgroups); got != want {
			t.Errorf("%q: %d, want %d", cgroups, got, want)
		}
	}
}
