package bolt

import "golang.org/x/sys/unix"

// lookAt returns the place of the file under path. Unlike [os.Stat] it does not read the
// times of the file: since Linux 6.13 the first write after such a read sets a new time, and
// so the next fdatasync must write the inode, too.
func lookAt(path string) (place, error) {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_SIZE, &st) != nil {
		return statPlace(path) // returns the error, or works where statx is not known
	}
	return place{device: unix.Mkdev(st.Dev_major, st.Dev_minor), inode: st.Ino, size: int64(st.Size)}, nil
}
