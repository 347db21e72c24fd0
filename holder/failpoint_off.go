//go:build !failpoint

package holder

// failpoint names a place where it matters that a kill loses nothing. With the
// build tag failpoint, a test can have the program killed there.
func failpoint(string) {}

// failpointVariables must reach background processes too.
var failpointVariables []string
