// Command launch runs a command and prints its cost: nanoseconds from before its start to its
// end, and its peak memory in bytes.
//
//	launch COMMAND [ARG…]
//
// It is a separate, small program, because on Linux the peak memory of a process counts as at
// least that of the process that started it. If the benchmark itself started the commands, each
// would seem to need the benchmark's memory.
package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func main() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		fail(err)
	}
	attr := syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{null.Fd(), null.Fd(), 2}}

	begin := time.Now()
	pid, err := syscall.ForkExec(os.Args[1], os.Args[1:], &attr)
	if err != nil {
		fail(err)
	}
	var status syscall.WaitStatus
	var usage syscall.Rusage
	for {
		if _, err = syscall.Wait4(pid, &status, 0, &usage); err != syscall.EINTR {
			break
		}
	}
	took := time.Since(begin)
	if err != nil {
		fail(err)
	}
	if status != 0 {
		os.Stderr.WriteString("launch: " + os.Args[1] + " ended with wait status " + strconv.Itoa(int(status)) + "\n")
		os.Exit(1)
	}
	peak := int64(usage.Maxrss)
	if runtime.GOOS == "linux" {
		peak *= 1024 // getrusage(2) counts in kilobytes there, in bytes on macOS
	}
	os.Stdout.WriteString(strconv.FormatInt(took.Nanoseconds(), 10) + " " + strconv.FormatInt(peak, 10) + "\n")
}

func fail(err error) {
	os.Stderr.WriteString("launch: " + os.Args[1] + ": " + err.Error() + "\n")
	os.Exit(1)
}
