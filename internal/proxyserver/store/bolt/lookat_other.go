//go:build !linux

package bolt

// lookAt returns the place of the file under path.
func lookAt(path string) (place, error) { return statPlace(path) }
