package suspend

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot returns how long ago the machine booted, time suspended included. It is
// the same in all processes.
func SinceBoot() time.Duration {
	if t, ok := readClock(unix.CLOCK_BOOTTIME); ok {
		return t
	}
	t, _ := readClock(unix.CLOCK_MONOTONIC)
	return t
}
