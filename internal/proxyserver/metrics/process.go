package metrics

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// WriteProcess writes the metrics that dashboards expect of every Go program, under the names
// of prometheus/client_golang. The library has dozens, which nobody asked for. Metrics that the system does not provide are left out: on
// macOS, those from /proc.
func (m *Counts) WriteProcess(t *Text) {
	t.Family("go_info", "gauge", "The version of Go; always 1.")
	t.Sample("go_info", 1, "version", runtime.Version())
	// Stops the server for some 10 µs.
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.One("go_goroutines", "gauge", "Goroutines that there are.", float64(runtime.NumGoroutine()))
	t.One("go_sched_gomaxprocs_threads", "gauge", "Threads that run Go code at a time, at most.", float64(runtime.GOMAXPROCS(0)))
	t.One("go_memstats_heap_alloc_bytes", "gauge", "Bytes of the heap that are in use.", float64(memory.HeapAlloc))
	t.One("go_memstats_sys_bytes", "gauge", "Bytes that Go has from the system.", float64(memory.Sys))
	t.One("go_gc_cycles_total", "counter", "Garbage collections.", float64(memory.NumGC))
	t.One("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970.", float64(m.started.UnixMilli())/1000)
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
		t.One("process_cpu_seconds_total", "counter", "Seconds of CPU that the server has used.", cpu.Seconds())
	}
	if resident, ok := residentBytes(); ok {
		t.One("process_resident_memory_bytes", "gauge", "Bytes of memory that the server takes.", resident)
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		t.One("process_open_fds", "gauge", "Open file descriptors.", float64(len(files)))
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		t.One("process_max_fds", "gauge", "Most file descriptors that may be open.", float64(limit.Cur))
	}
}

// residentBytes is the second number of /proc/self/statm, see proc(5).
func residentBytes() (float64, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	return float64(pages) * float64(os.Getpagesize()), err == nil
}
