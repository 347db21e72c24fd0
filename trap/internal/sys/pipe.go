package sys

import "golang.org/x/sys/unix"

// PipeInode returns the inode number of the pipe fd; ok is false if fd is no pipe.
func PipeInode(fd uintptr) (inode uint64, ok bool) {
	var st unix.Stat_t
	if unix.Fstat(int(fd), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return 0, false
	}
	return st.Ino, true
}
