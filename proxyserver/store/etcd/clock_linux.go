package etcd

import (
	"time"

	"golang.org/x/sys/unix"
)

// boottime is the time since the machine booted, with the time for which it was
// suspended (CLOCK_BOOTTIME, clock_gettime(2)): other servers do not sleep with it.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}
