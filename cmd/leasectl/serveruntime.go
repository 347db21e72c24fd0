package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/cmd/leasectl/early"
)

// useAllProcessors takes the processors that package early has left idle.
func useAllProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS() // which also follows the limits of a container
	} else {
		runtime.GOMAXPROCS(early.Processors)
	}
}

// addProcessor lets the runtime use one processor more, for a store in a directory. A goroutine
// that waits for the disk keeps its processor until the runtime takes it away. On two cores, calls
// would meanwhile run on one. GOMAXPROCS has precedence. From then on the runtime does not follow
// changes of a container's limits.
func addProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// ballastSize is the least garbage, in bytes, that a server makes between two collections. The
// runtime collects when the heap has doubled, but not below 4 MiB. The heap of a busy server is
// that small, so without ballast its stacks would be scanned ten to twenty times a second.
const ballastSize = 16 << 20

// holdBallast enlarges the heap by memory that is never touched, and so never resident. A larger
// GOGC would do the same for a small heap, but the heap of a server with many waiters would grow
// to a multiple. The caller calls release at the end.
func holdBallast() (release func()) {
	ballast := make([]byte, ballastSize)
	return func() { runtime.KeepAlive(ballast) }
}

// boundMemory lets the runtime collect garbage in time in a container or unit whose memory is bounded, instead of
// doubling the heap first. The rest is for stacks of others than Go's and for pages of the store. GOMEMLIMIT has precedence.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return // there are none
	}
	if most := memoryOf("/sys/fs/cgroup", string(cgroups)); most < math.MaxInt64 {
		debug.SetMemoryLimit(most / 5 * 4)
	}
}

// memoryOf returns how many bytes of memory the cgroups have that a process is in, of version 1 or 2, and those around
// them. cgroups is its cgroup file in /proc. In a container the paths in it may be those of the machine: then the
// one that is mounted is its own.
func memoryOf(mount, cgroups string) int64 {
	least := int64(math.MaxInt64)
	for line := range strings.Lines(cgroups) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		root, file := mount, "memory.max"
		if fields[1] != "" {
			root, file = filepath.Join(mount, fields[1]), "memory.limit_in_bytes"
		}
		for path := filepath.Join("/", fields[2]); ; path = filepath.Dir(path) {
			text, err := os.ReadFile(filepath.Join(root, path, file))
			if n, notNumber := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && notNumber == nil && n > 0 {
				least = min(least, n)
			}
			if path == "/" {
				break
			}
		}
	}
	return least
}
