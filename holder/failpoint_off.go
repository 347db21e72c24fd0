//go:build !failpoint

package holder

// failpoint marks a place at which a kill must lose nothing. With the build tag failpoint, a
// test can kill the program there.
func failpoint(string) {}

// failpointVariables are passed on to background processes.
var failpointVariables []string
