//go:build !linux

package suspend

import "time"

// Total returns 0: the suspended time is known on Linux only.
func Total() time.Duration { return 0 }

// Resumes returns a nil channel: a clock that ignores suspends needs no wake-up after one.
func Resumes() (c <-chan struct{}, stop func()) { return nil, func() {} }
