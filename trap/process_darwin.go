package trap

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const stateZombie = 5 // SZOMB of sys/proc.h

// liveMembers returns the processes of a group that are not zombies.
func liveMembers(group int) ([]int, error) {
	processes, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range processes {
		if p.Proc.P_stat != stateZombie {
			pids = append(pids, int(p.Proc.P_pid))
		}
	}
	return pids, nil
}

// gone tells whether a process is a zombie or does not exist.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && p.Proc.P_stat == stateZombie
}

// waitExit waits for the end of a process by looking every so often. It is also
// over if the process is not the one that was meant.
func waitExit(ctx context.Context, pid int, meant func() bool, every time.Duration) error {
	return pollExit(ctx, pid, meant, every)
}
