package main

// growStack makes the stack of its goroutine as large as a whole command needs, at
// once. Otherwise it would grow several times on the way, and each time the runtime
// walks all frames, for which it reads the tables of their functions: a tenth of a
// millisecond, and some 0.3 MB of the program that nothing else reads.
//
// A stack's size is a power of two, so for more than half of 32 KiB it gets all of them,
// and what is not in room is not touched.
//
// For the same reason what each command starts is started by [sync.WaitGroup.Go], also
// where a go statement would do: the runtime reads the name of the function that a
// goroutine begins with, and so 64 KiB of the program for each package that has one.
//
//go:noinline
func growStack(i int) byte {
	var room [16 << 10]byte
	return room[i]
}
