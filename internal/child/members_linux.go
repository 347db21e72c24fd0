package child

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/leasectl/leasectl/internal/sys"
)

var errOtherProc = errors.New("/proc does not show this PID namespace")

// liveMembers returns the processes of a group that are not zombies.
func liveMembers(group int) ([]int, error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errOtherProc // such as after unshare --pid without --mount-proc
	}
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
			continue // not a process
		}
		if id, err := syscall.Getpgid(pid); err == nil && id == group && !sys.Gone(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
