//go:build !linux

package suspend

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot returns how long ago the machine booted, by its monotonic clock. It is
// the same in all processes.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
