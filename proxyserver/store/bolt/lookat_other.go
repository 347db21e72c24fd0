//go:build !linux

package bolt

// lookAt returns the place under path.
func lookAt(path string) (place, error) { return statPlace(path) }
