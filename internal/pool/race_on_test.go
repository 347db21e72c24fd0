//go:build race

package pool

// raceEnabled: the race detector makes the simulation ten times slower, and has
// nothing to find in it.
const raceEnabled = true
