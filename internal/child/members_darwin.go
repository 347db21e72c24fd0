package child

import (
	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
)

// liveMembers returns the processes of a group that are not zombies.
func liveMembers(group int) ([]int, error) {
	processes, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range processes {
		if p.Proc.P_stat != sys.StateZombie {
			pids = append(pids, int(p.Proc.P_pid))
		}
	}
	return pids, nil
}
