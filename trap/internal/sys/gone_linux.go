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
	// The state follows the name, which stands in parentheses and may contain some (proc(5)).
	_, state, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	return found && len(state) > 0 && (state[0] == 'Z' || state[0] == 'X')
}
