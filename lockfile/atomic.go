package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leasectl/leasectl/internal/own"
)

// change is one step of a change on disk: it writes data to path, renames from to path, or
// removes path.
type change struct {
	path string
	data []byte // nil: see from
	mode fs.FileMode
	from string // the file that is renamed to path; "": path is removed
}

func replace(path string, data []byte) change { return change{path: path, data: data, mode: ownerOnly} }
func rename(from, path string) change         { return change{path: path, from: from} }
func remove(path string) change               { return change{path: path} }

// apply carries out changes in their order, each of them atomically. It writes all data to
// temporary files before it changes the first path, so that a full disk is an error that
// changes nothing. All paths are in one directory.
func apply(changes ...change) error {
	if len(changes) == 0 {
		return nil
	}
	return own.As(filepath.Dir(changes[0].path), func() error { return applyAs(changes) })
}

// applyAs is apply, for changes in a directory.
func applyAs(changes []change) error {
	temps := make([]string, len(changes))
	defer func() {
		for _, temp := range temps {
			if temp != "" {
				os.Remove(temp)
			}
		}
	}()
	for i, c := range changes {
		if c.data == nil {
			continue
		}
		temp, err := writeTemp(c)
		if err != nil {
			return err
		}
		temps[i] = temp
	}
	for i, c := range changes {
		if err := c.carryOut(temps[i]); err != nil {
			return err
		}
		temps[i] = ""
	}
	return nil
}

func (c change) carryOut(temp string) error {
	switch {
	case c.data != nil:
		return os.Rename(temp, c.path)
	case c.from != "":
		return os.Rename(c.from, c.path)
	}
	if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeTemp writes c.data to a new file beside c.path and returns its path. On failure it
// leaves no file.
func writeTemp(c change) (temp string, err error) {
	if err := checkSize(c.path, c.data); err != nil {
		return "", fmt.Errorf("write %w", err)
	}
	// A random name and O_EXCL: nobody can put a file or a symlink there first.
	f, err := os.CreateTemp(filepath.Dir(c.path), "."+filepath.Base(c.path)+".tmp*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(c.data)
	if err == nil {
		err = chmod(f, c.mode)
	}
	// Some file systems report a full disk or quota only here.
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return f.Name(), err
}

// chmod gives f the mode, whatever the umask, if f does not have it yet.
func chmod(f *os.File, mode fs.FileMode) error {
	fi, err := f.Stat()
	if err != nil || fi.Mode().Perm() == mode {
		return err
	}
	return f.Chmod(mode)
}
