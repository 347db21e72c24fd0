package bolt

import "golang.org/x/sys/unix"

// lookAt returns the place under path. It does not ask for the times of the file, as
// [os.Stat] does: since Linux 6.13 the first write after such a question gets a time
// of its own, so that the next fdatasync writes the inode, too.
func lookAt(path string) (place, error) {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_SIZE, &st) != nil {
		return statPlace(path) // which says why not, or works where statx is not known
	}
	return place{device: unix.Mkdev(st.Dev_major, st.Dev_minor), inode: st.Ino, size: int64(st.Size)}, nil
}
