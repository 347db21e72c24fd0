package lockfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ownerOnly is the mode of every file this package creates, whatever the
// umask: names of leases and owners are nobody else's business, and a lock
// that others can open is a lock that others can hold.
const ownerOnly fs.FileMode = 0o600

// maxFile bounds what is read into memory, in bytes, since the path may be a
// mistake. It has room for some thousand leases with the longest names.
const maxFile = 1 << 20

// readOwn returns the content of a regular file of ours, or nil, and no
// error, if there is none. An empty file is an empty slice that is not nil.
// The checks are made on the open file, so nothing can be swapped in between.
func readOwn(path string) ([]byte, error) {
	data, _, err := readOwnMode(path)
	return data, err
}

// readOwnMode is readOwn with the permission bits of the file.
func readOwnMode(path string) ([]byte, fs.FileMode, error) {
	// O_NONBLOCK: opening a pipe must fail the check below, not hang.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		if refused := refusal(path); refused != nil {
			err = refused
		}
		return nil, 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if err := checkOwn(path, fi); err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, 0, err
	}
	if len(data) > maxFile {
		return nil, 0, fmt.Errorf("%s is larger than %d bytes, which no file of leases is: check the path", path, maxFile)
	}
	return data, fi.Mode().Perm(), nil
}

// checkOwn refuses everything but a regular file of ours.
func checkOwn(path string, fi fs.FileInfo) error {
	switch mode := fi.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symlink, and none is followed here: use the path it leads to", path)
	case mode.IsDir():
		return fmt.Errorf("%s is a directory, not a file: add a file name to it", path)
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file (%s): use another path", path, mode.Type())
	}
	if uid := owner(fi); uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: use another path, or run as user %d", path, uid, os.Geteuid(), uid)
	}
	return nil
}

// checkDir refuses a directory that is neither ours nor root's. The error is
// fs.ErrNotExist if there is none. The mode is not looked at; the package
// comment says why.
func checkDir(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a directory: use a path in one", dir)
	}
	if uid := owner(fi); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("directory %s belongs to user %d, and this is user %d: use a directory of your own", dir, uid, os.Geteuid())
	}
	return nil
}

// filesIn returns what is in a directory that checkDir accepts, by name; nothing if
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

// byAge returns the files of a directory whose names end in suffix, the
// oldest first. One that cannot be looked at comes before all others, without a
// time: to read it says why.
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

// MakeDir makes the directory at path, with mode 0700, if it is missing; the
// directory above it must exist. One that is there must be a real directory
// that belongs to the caller and that nobody else can write to, or it is
// refused. Its mode is never changed: path may be a mistake, and taking away
// everybody's rights to, say, /tmp would be a worse one.
func MakeDir(path string) error {
	path = filepath.Clean(path) // a slash at the end would follow a symlink
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		// Whatever is there is looked at below, also if a second process was first.
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make directory: %w", err)
		}
		fi, err = os.Lstat(path)
	}
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	uid, perm := owner(fi), fi.Mode().Perm()
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

func owner(fi fs.FileInfo) int {
	return int(fi.Sys().(*syscall.Stat_t).Uid)
}

// refusal returns why checkOwn would refuse what is at path now, or nil. It is
// for a better or an earlier error, "too many levels of symbolic links" does
// not say what to do; what counts is the check of the open file.
func refusal(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	return checkOwn(path, fi)
}
