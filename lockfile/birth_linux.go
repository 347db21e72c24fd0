package lockfile

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// birthOf tells a directory from its copies, also later: by the time at which it was made, which nobody can
// set, or by its inode where that time is not kept. "" if it is missing.
func birthOf(dir string) string {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &stat)
	if err != nil || stat.Mask&unix.STATX_BTIME == 0 || stat.Btime.Sec == 0 {
		return inodeOf(dir)
	}
	return fmt.Sprintf("%x.%x", stat.Btime.Sec, stat.Btime.Nsec)
}
