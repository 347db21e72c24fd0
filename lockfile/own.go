package lockfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leasectl/leasectl/internal/own"
)

// ownerOnly is the mode of every file this package creates, whatever the umask: names of leases
// and owners are private, and a user who can open a lock file can hold the lock.
const ownerOnly fs.FileMode = 0o600

// maxFile is the largest file that is read into memory, in bytes; a path may be a mistake. It
// has room for some thousand leases with the longest names.
const maxFile = 1 << 20

// readOwn returns the content of a regular file of ours. If there is none, it returns nil and
// no error. An empty file is an empty slice that is not nil. The checks are made on the open
// file, so the file cannot be swapped after them.
func readOwn(path string) ([]byte, error) {
	data, _, err := readOwnMode(path)
	return data, err
}

// readOwnMode is readOwn with the permission bits of the file.
func readOwnMode(path string) (data []byte, mode fs.FileMode, err error) {
	err = own.As(filepath.Dir(path), func() error {
		data, mode, err = readOwnAs(path)
		return err
	})
	return data, mode, err
}

func readOwnAs(path string) ([]byte, fs.FileMode, error) {
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

// checkSize refuses data that readOwn would refuse to read from path.
func checkSize(path string, data []byte) error {
	if len(data) > maxFile {
		return fmt.Errorf("%s: %d bytes are more than the %d that would be read again", path, len(data), maxFile)
	}
	return nil
}

// checkOwn refuses everything but a regular file of ours; see [own.Uses].
func checkOwn(path string, fi fs.FileInfo) error {
	switch mode := fi.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symlink, and none is followed here: use the path it leads to", path)
	case mode.IsDir():
		return fmt.Errorf("%s is a directory, not a file: add a file name to it", path)
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file (%s): use another path", path, mode.Type())
	}
	if !own.Uses(path, fi) {
		uid := own.OwnerOf(fi).User
		if os.Geteuid() == 0 {
			return fmt.Errorf("%s belongs to user %d, and this is user 0, who uses files of others only in directories that are theirs alone: run as user %d, or use such a directory", path, uid, uid)
		}
		return fmt.Errorf("%s belongs to user %d, and this is user %d: use another path, or run as user %d", path, uid, os.Geteuid(), uid)
	}
	return nil
}

// refusal returns the error of checkOwn for the file at path now, or nil. It only makes an
// error better or earlier ("too many levels of symbolic links" does not say what to do). The
// check that protects is that of the open file.
func refusal(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	return checkOwn(path, fi)
}
