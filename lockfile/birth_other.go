//go:build !linux

package lockfile

// birthOf tells a directory from its copies; "" if it is missing.
func birthOf(dir string) string { return inodeOf(dir) }
