//go:build !linux

package proxyclient

import "time"

// suspended is known on Linux only.
func suspended() time.Duration { return 0 }

// resumes never tells: a clock that ignores suspends needs no waking after one.
func resumes() (c <-chan struct{}, stop func()) { return nil, func() {} }
