package suspend

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot returns the time since the machine booted, suspended time included. All
// processes read the same clock.
func SinceBoot() time.Duration {
	if t, ok := readClock(unix.CLOCK_BOOTTIME); ok {
		return t
	}
	t, _ := readClock(unix.CLOCK_MONOTONIC)
	return t
}
