package process

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// descriptorDir lists a process's own descriptors on Linux and macOS.
const descriptorDir = "/dev/fd"

// inheritedDescriptors returns the open descriptors above 2 that a program started from here
// would inherit.
func inheritedDescriptors() ([]int, error) {
	names, err := os.ReadDir(descriptorDir)
	if err != nil {
		return nil, fmt.Errorf("list open descriptors: %w", err)
	}
	var fds []int
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil || fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 { // on an error fd was the listing's own
			fds = append(fds, fd)
		}
	}
	return fds, nil
}
