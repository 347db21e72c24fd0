//go:build !linux

package etcd

import "time"

var processStarted = time.Now()

// boottime is Go's monotonic clock, which may stand still in a suspend: other
// systems than Linux are for development.
func boottime() time.Duration { return time.Since(processStarted) }
