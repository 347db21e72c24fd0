package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/internal/own"
)

// PrivateDir returns the directory to use when the user names dir: dir itself, or a directory
// of ours inside it. The latter is for a dir that other users can write to, or that is root's
// when we are not root, such as a volume of a container platform, and for a state directory that was copied.
// PrivateDir makes no directory, and does not check whether one can be made: that is the job of [MakeStateDir].
//
// If PrivateDir returned dir, and dir was made, PrivateDir(dir) is dir.
func PrivateDir(dir string) string {
	fi, err := os.Lstat(filepath.Clean(dir))
	if err != nil || !fi.IsDir() {
		return dir
	}
	switch uid := own.OwnerOf(fi).User; {
	case uid == os.Geteuid() && fi.Mode().Perm()&0o022 == 0:
		return uncopied(dir)
	case uid != os.Geteuid() && uid != 0:
		return dir // its owner could replace what we make there
	}
	dir = filepath.Join(dir, fmt.Sprintf("leasectl-%d", os.Geteuid()))
	if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() || own.OwnerOf(fi).User != os.Geteuid() {
		return dir
	}
	return uncopied(dir)
}

// MakeDir makes the directory at path, with mode 0700, if it is missing; its parent must exist.
// If path exists, it must be a real directory that belongs to the caller and that nobody else
// can write to, or it is refused. So is a path of which a part is neither the caller's nor root's. MakeDir never changes the mode of an existing directory: path
// may be a mistake, and taking away everybody's rights to, say, /tmp would be a worse one.
func MakeDir(path string) error {
	path = filepath.Clean(path) // a slash at the end would follow a symlink
	if err := own.Dir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		stateKeys.Delete(path) // of a directory that was removed
		// The directory is checked below, also if another process made it first.
		umask := syscall.Umask(0o077) // which may take the owner's rights away
		err = os.Mkdir(path, 0o700)
		syscall.Umask(umask)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make directory: %w", err)
		}
		fi, err = os.Lstat(path)
	}
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	uid, perm := own.OwnerOf(fi).User, fi.Mode().Perm()
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("make directory: %s is a symlink, and none is followed here: remove it, or use the path it leads to", path)
	case !fi.IsDir():
		return fmt.Errorf("make directory: %s is there and is not a directory: remove it, or use another path", path)
	case uid != os.Geteuid():
		return fmt.Errorf("make directory: %s belongs to user %d, and this is user %d: use another path", path, uid, os.Geteuid())
	case perm&0o022 != 0:
		return fmt.Errorf("make directory: other users can write to %s (mode %04o): chmod 700 it if it is for leasectl alone, or use another path", path, perm)
	case perm&0o700 != 0o700:
		return fmt.Errorf("make directory: %s cannot be used by its owner (mode %04o): chmod 700 it", path, perm)
	}
	return nil
}

// MakeStateDir is [MakeDir] for the state directory, and makes its key. One whose key cannot be read is refused. The
// error names the variable that sets another directory.
func MakeStateDir(dir string) error {
	err := checkKey(dir)
	if err == nil {
		err = MakeDir(dir)
	}
	if err == nil {
		err = makeStateKey(dir)
	}
	if err != nil {
		return stateDirError(err)
	}
	return nil
}

// CheckStateDir returns an error if the state directory exists and cannot be used. If it is missing, there is no
// state, which is no error.
func CheckStateDir(dir string) error {
	if err := checkKey(dir); err != nil {
		return stateDirError(err)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := MakeDir(dir); err != nil {
		return stateDirError(err)
	}
	return nil
}

func stateDirError(err error) error {
	return fmt.Errorf("state directory: %w (LEASECTL_STATE_DIR names another)", err)
}

// checkDir refuses a directory that others could put in the place of another; see [own.DirForRoot]. The
// error is fs.ErrNotExist if there is none. It does not check the mode; the package comment says why.
func checkDir(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a directory: use a path in one", dir)
	}
	return own.DirForRoot(dir)
}

// filesIn returns the entries of a directory that checkDir accepts, sorted by name; none if
// there is no directory.
func filesIn(dir string) ([]fs.DirEntry, error) {
	if err := checkDir(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return os.ReadDir(dir)
}

// agedFile is a file, and when it was last written.
type agedFile struct {
	path string
	at   time.Time
}

// byAge returns the files of a directory whose names end in suffix, the oldest first. A file
// whose time cannot be read comes first, with the zero time: reading the file gives the error.
func byAge(dir, suffix string) ([]agedFile, error) {
	found, err := filesIn(dir)
	if err != nil {
		return nil, err
	}
	return aged(dir, found, suffix), nil
}

func aged(dir string, found []fs.DirEntry, suffix string) (files []agedFile) {
	for _, f := range found {
		if !strings.HasSuffix(f.Name(), suffix) {
			continue
		}
		file := agedFile{path: filepath.Join(dir, f.Name())}
		if info, err := f.Info(); err == nil {
			file.at = info.ModTime()
		} else if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		files = append(files, file)
	}
	slices.SortStableFunc(files, func(a, b agedFile) int { return a.at.Compare(b.at) })
	return files
}
