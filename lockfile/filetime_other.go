//go:build !linux

package lockfile

import "time"

// FileTime returns the earliest time that a file written from now on can have.
func FileTime() time.Time { return time.Now().UTC().Round(0) }
