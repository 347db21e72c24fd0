package sys

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Gone tells whether a process is a zombie or does not exist. Without /proc a
// zombie counts as alive.
func Gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}
	// The fields follow the name, which stands in parentheses and may contain some (proc(5)).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 18 {
		return false
	}
	state, threads := string(fields[0]), string(fields[17])
	// The main thread is a zombie also if only that thread has ended.
	return state == "X" || state == "Z" && (threads == "1" || threads == "0")
}
