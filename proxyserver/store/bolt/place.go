package bolt

import (
	"os"
	"syscall"
)

// place is which file is under a path, and how long it is.
type place struct {
	device, inode uint64
	size          int64
}

// placeOf returns the place of a file from what [os.Stat] says of it.
func placeOf(info os.FileInfo) place {
	st := info.Sys().(*syscall.Stat_t)
	return place{device: uint64(st.Dev), inode: st.Ino, size: info.Size()}
}

// sameFile reports whether both are places of one file.
func (p place) sameFile(other place) bool { return p.device == other.device && p.inode == other.inode }

// statPlace returns the place under path.
func statPlace(path string) (place, error) {
	info, err := os.Stat(path)
	if err != nil {
		return place{}, err
	}
	return placeOf(info), nil
}
