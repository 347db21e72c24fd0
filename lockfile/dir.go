package lockfile

import (
	"fmt"
	"os"
	"path/filepath"
)

// PrivateDir returns the directory to use where the user named dir: dir itself, or
// a directory of ours inside of it if other users can write to dir, or if it is
// root's, such as a volume of a container platform. It makes nothing, and it is
// not checked whether one can be made: that is [MakeDir]'s.
//
// PrivateDir of a directory that it returned, and that was made, is that directory.
func PrivateDir(dir string) string {
	fi, err := os.Lstat(filepath.Clean(dir))
	if err != nil || !fi.IsDir() {
		return dir
	}
	switch uid := owner(fi); {
	case uid == os.Geteuid() && fi.Mode().Perm()&0o022 == 0:
		return dir
	case uid != os.Geteuid() && uid != 0:
		return dir // its owner could replace what we make there
	}
	return filepath.Join(dir, fmt.Sprintf("leasectl-%d", os.Geteuid()))
}
