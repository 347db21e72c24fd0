//go:build !linux

package proxyclient

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot reads the monotonic clock of the system.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
