package child

import "golang.org/x/sys/unix"

const getModes = unix.TIOCGETA
