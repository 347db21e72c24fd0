package bolt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/own"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

var _ store.Backuper = (*Store)(nil)

// errNoRoom is the error of a backup that would leave too little room for the store itself.
var errNoRoom = errors.New("the disk has too little room for a copy beside the store")

// Backup implements [store.Backuper]. It returns when the copy is complete. The copy is a
// file without a name beside the store, which is freed when it is closed. A transaction
// open for as long as the caller reads would make the store grow, and commits wait.
func (s *Store) Backup() (copied io.ReadCloser, size int64, err error) {
	f, size, err := s.copyFile()
	if err != nil {
		return nil, 0, fmt.Errorf("copy %s: %w", s.path, err)
	}
	return f, size, nil
}

func (s *Store) copyFile() (copied *os.File, size int64, err error) {
	dir := filepath.Dir(s.path)
	f, err := os.CreateTemp(dir, File+".*.copy") // mode 0600
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, 0, err
	}
	s.copying.Lock() // so that hasRoom sees the space that other copies took
	defer s.copying.Unlock()
	err = s.db.View(func(tx *bolt.Tx) error {
		if err := hasRoom(dir, tx.Size()); err != nil {
			return err
		}
		size, err = tx.WriteTo(f)
		return err
	})
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return f, size, err
}

// hasRoom returns an error unless size bytes fit into dir, and as many again remain for the
// store to grow.
func hasRoom(dir string, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	if free := uint64(fs.Bavail) * uint64(fs.Bsize); free < 2*uint64(size) {
		return fmt.Errorf("%w: %d bytes are free, it takes %d", errNoRoom, free, 2*size)
	}
	return nil
}

// SaveBackup writes a backup to path, with mode 0600, and returns its size in bytes. read
// writes the content, and returns the size. The file gets its name only when it is a whole store
// and on disk, because an earlier backup is better than half of a new one. SaveBackup
// returns when the name is on disk, too. If path is a symlink, the link stays, and its target
// is replaced or made. A path to anything but a regular file, or one that another user can change (package
// own), is refused before read is called.
func SaveBackup(path string, read func(w io.Writer) (size int64, err error)) (size int64, err error) {
	err = own.File(path)
	if err == nil {
		path, err = backupFile(path)
	}
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new") // mode 0600
	if errors.Is(err, os.ErrNotExist) {
		// The original error would name a temporary file, which the user does not know.
		return 0, fmt.Errorf("backup: directory %s does not exist: make it first", filepath.Dir(path))
	}
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	size, err = read(f)
	if err == nil {
		err = checkCopy(f, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return size, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return size, fmt.Errorf("backup: %w", err)
	}
	return size, syncDir(filepath.Dir(path))
}

// checkCopy returns an error unless a file is a whole store of size bytes, by the sums of its records. It
// needs little memory, whatever the file is.
func checkCopy(f *os.File, size int64) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Size() != size: // the reader says so, or somebody else has written
		return fmt.Errorf("backup: the copy has %d bytes, and %d arrived", info.Size(), size)
	}
	r := reader{sumsOnly: true}
	if err := r.read(f, size); err != nil {
		return fmt.Errorf("backup: what arrived is no whole store, and replaces nothing: %w", err)
	}
	return nil
}

// backupFile returns the file to which path leads, symlinks followed. It refuses a device or
// a pipe, such as /dev/stdout, because the rename at the end would replace it.
func backupFile(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // neither a file nor a link exists
		}
		if filepath.IsAbs(to) {
			return backupFile(to)
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		return backupFile(filepath.Join(dir, to))
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file (%s): name a file to write or replace", path, info.Mode().Type())
	}
	return filepath.EvalSymlinks(path)
}
