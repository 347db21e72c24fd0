// Package stack enlarges the stack of the main goroutine to the size that a whole command needs,
// before the packages that need it are initialised. It is imported only for this effect.
//
// Otherwise the stack would grow several times: while imported packages compile regular
// expressions, and again later. For each growth the runtime walks all frames and reads the tables
// of their functions. In all this costs each command a tenth of a millisecond, and reads 0.2 to
// 0.8 MB of the program that nothing else reads.
//
// Among the packages whose imports are initialised, Go initialises the first by import path. This
// package imports nothing, so it comes before all packages that import net/http, and before
// go.yaml.in/yaml.
//
// For the same reason every command starts its goroutines with [sync.WaitGroup.Go], also where a go
// statement would do. The runtime reads the name of the function that a goroutine begins with, and
// so 64 KiB of the program for each package with such a function.
package stack

func init() { grow(0) }

// grow needs more than half of 32 KiB. A stack's size is a power of two, so the stack gets all 32.
// Of these only room is touched.
//
//go:noinline
func grow(i int) byte {
	var room [16 << 10]byte
	return room[i]
}
