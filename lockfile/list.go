package lockfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// List is the path of a file to which several handles add their names, one
// a line. Lines that others wrote are kept byte for byte. Every change replaces
// the file under a lock on the path with .lock added; the lock file stays. A List
// makes no directory.
type List string

// Read returns the names in the list, none if it does not exist. Lines that
// are no names are reported in the error, but do not keep the others from
// being returned.
func (l List) Read() ([]string, error) {
	data, _, err := l.read()
	if err != nil {
		return nil, err
	}
	names, err := parseNames(data)
	if err != nil {
		err = fmt.Errorf("read list %s: %w", l, err)
	}
	return names, err
}

// Append adds names at the end. It blocks for the lock until ctx ends.
func (l List) Append(ctx context.Context, names []string) error {
	if err := checkNames(names); err != nil {
		return fmt.Errorf("append to list %s: %w", l, err)
	}
	if len(names) == 0 {
		return nil
	}
	return l.update(ctx, func(old []byte, mode fs.FileMode) error {
		return apply(l.append(old, names, mode))
	})
}

// CanAppend returns nil if an Append would succeed now. It takes the lock,
// waiting for it until ctx ends, reads the list and writes a temporary file
// beside it, but leaves the list alone.
func (l List) CanAppend(ctx context.Context) error {
	return l.update(ctx, func(old []byte, mode fs.FileMode) error {
		longest := strings.Repeat("x", leaseapi.MaxName)
		temp, err := writeTemp(l.append(old, []string{longest}, mode))
		if err != nil {
			return err
		}
		return os.Remove(temp)
	})
}

// Remove takes out names, one line for each; a name that is not there, and
// a list that is not there, are fine. The file stays, even if it is empty then.
// It blocks for the lock until ctx ends.
func (l List) Remove(ctx context.Context, names []string) error {
	// A list that is missing or empty holds none of the names: no lock is needed.
	if data, _, err := l.read(); err != nil || len(data) == 0 {
		return err
	}
	return l.update(ctx, func(old []byte, mode fs.FileMode) error {
		left := slices.Clone(names)
		data := []byte{}
		for line := range strings.Lines(string(old)) {
			if i := slices.Index(left, nameOn(line)); i >= 0 {
				left = slices.Delete(left, i, i+1)
				continue
			}
			data = append(data, line...)
		}
		if bytes.Equal(data, old) {
			return nil
		}
		return apply(change{path: l.path(), data: data, mode: mode})
	})
}

func (l List) append(old []byte, names []string, mode fs.FileMode) change {
	data := slices.Clone(old)
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	return change{path: l.path(), data: append(data, formatNames(names)...), mode: mode}
}

// update calls fn with the content and the mode of the list, under its lock.
func (l List) update(ctx context.Context, fn func(old []byte, mode fs.FileMode) error) error {
	err := checkDir(filepath.Dir(l.path()))
	if err == nil {
		err = WithLock(ctx, l.path()+lockSuffix, func() error {
			old, mode, err := readOwnMode(l.path())
			if err != nil {
				return err
			}
			if old == nil {
				mode = ownerOnly
			}
			return fn(old, mode)
		})
	}
	if err != nil {
		return fmt.Errorf("update list %s: %w", l, err)
	}
	return nil
}

func (l List) read() ([]byte, fs.FileMode, error) {
	err := checkDir(filepath.Dir(l.path()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	var data []byte
	var mode fs.FileMode
	if err == nil {
		data, mode, err = readOwnMode(l.path())
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read list %s: %w", l, err)
	}
	return data, mode, nil
}

// path is clean, since a slash at its end would make it another file.
func (l List) path() string { return filepath.Clean(string(l)) }
