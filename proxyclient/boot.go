package proxyclient

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi/suspend"
)

// SinceBoot returns i as the time since this machine booted. Unlike an Instant it
// means the same in every process of the machine, until the next boot.
func (i Instant) SinceBoot() time.Duration { return suspend.SinceBoot() + Until(i) }

// AfterBoot is the inverse of [Instant.SinceBoot].
func AfterBoot(d time.Duration) Instant { return Now().Add(d - suspend.SinceBoot()) }
