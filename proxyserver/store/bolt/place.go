package bolt

import (
	"os"
	"syscall"
)

// place identifies the file under a path, and has its length.
type place struct {
	device, inode uint64
	size          int64 // bytes
}

// placeOf returns the place of a file from the result of [os.Stat].
func placeOf(info os.FileInfo) place {
	st := info.Sys().(*syscall.Stat_t)
	return place{device: uint64(st.Dev), inode: st.Ino, size: info.Size()}
}

// sameFile reports whether p and other are places of one file.
func (p place) sameFile(other place) bool { return p.device == other.device && p.inode == other.inode }

// statPlace returns the place of the file under path.
func statPlace(path string) (place, error) {
	info, err := os.Stat(path)
	if err != nil {
		return place{}, err
	}
	return placeOf(info), nil
}
