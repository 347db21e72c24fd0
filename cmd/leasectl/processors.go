package main

import (
	"os"
	"runtime"
	"strconv"
)

// oneProcessor has the goroutines of this program take turns on one processor. A
// command does one thing after the other, and waits most of the time. With more
// processors the runtime wakes a thread for each goroutine that becomes ready, to run
// it for microseconds, and keeps a heap cache for each: a short command takes up to a
// tenth more of processor time, and 0.3 MB.
func oneProcessor() { runtime.GOMAXPROCS(1) }

// allProcessors takes oneProcessor back, for a server.
func allProcessors() {
	if n, err := strconv.Atoi(os.Getenv("GOMAXPROCS")); err == nil && n > 0 {
		runtime.GOMAXPROCS(n)
		return
	}
	runtime.SetDefaultGOMAXPROCS()
}
