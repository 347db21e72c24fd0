//go:build !failpoint

package failpoint

// Here marks a place at which a kill must lose nothing. With the build tag failpoint, a test can
// kill the program there.
func Here(string) {}

// Variables are passed on to background processes.
var Variables []string
