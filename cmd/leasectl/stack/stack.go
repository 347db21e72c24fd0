// Package stack makes the stack of the main goroutine as large as a whole command
// needs, before the packages that need it are initialised. It is imported for that alone.
//
// Otherwise the stack would grow several times: while imported packages compile regular
// expressions, and later on the way. Each time the runtime walks all frames, for
// which it reads the tables of their functions: a tenth of a millisecond of each command
// in all, and 0.2 to 0.8 MB of the program that nothing else reads.
//
// Go initialises the first package by import path of those whose imports are initialised.
// This one has none, and so comes before all that import net/http, and before
// go.yaml.in/yaml.
//
// For the same reason what each command starts is started by [sync.WaitGroup.Go], also
// where a go statement would do: the runtime reads the name of the function that a
// goroutine begins with, and so 64 KiB of the program for each package that has one.
package stack

func init() { grow(0) }

// grow needs more than half of 32 KiB. A stack's size is a power of two, so it gets all of
// them. What is not in room is not touched.
//
//go:noinline
func grow(i int) byte {
	var room [16 << 10]byte
	return room[i]
}
