package lockfile

import (
	"time"

	"golang.org/x/sys/unix"
)

// FileTime returns the earliest time that a file written from now on can have. It is some
// milliseconds behind [time.Now], as is the kernel's clock for the times of files.
func FileTime() time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return time.Now().UTC().Add(-10 * time.Millisecond) // a tick of the slowest kernels
	}
	return time.Unix(now.Unix()).UTC()
}
