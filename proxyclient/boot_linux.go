package proxyclient

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot reads the clock that an [Instant] follows.
func sinceBoot() time.Duration {
	if t, ok := readClock(unix.CLOCK_BOOTTIME); ok {
		return t
	}
	t, _ := readClock(unix.CLOCK_MONOTONIC)
	return t
}
