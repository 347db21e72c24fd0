package trap

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// liveMembers returns the processes of a group that are not zombies.
func liveMembers(group int) ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // no process
		}
		if id, err := syscall.Getpgid(pid); err == nil && id == group && !gone(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// gone tells whether a process is a zombie or does not exist. Without /proc a
// zombie counts as alive.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}
	// The state follows the name, which stands in parentheses and may have some
	// of its own (proc(5)).
	_, state, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	return found && len(state) > 0 && (state[0] == 'Z' || state[0] == 'X')
}
