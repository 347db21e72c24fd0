package main

import (
	"os"
	"runtime"

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
