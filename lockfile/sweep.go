package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Handles returns the handles in a directory that have a file beside their names, sorted by
// path. Killed processes may have left that file alone, so a handle itself may be gone. It does
// not find bare handles that consist of names alone.
func Handles(dir string) ([]Handle, error) {
	files, err := filesIn(dir)
	if err != nil {
		return nil, fmt.Errorf("list handles: %w", err)
	}
	var names []string
	for _, f := range files {
		if !f.Type().IsRegular() || isTemp(f.Name()) {
			continue
		}
		name, beside := baseName(f.Name())
		if strings.HasSuffix(f.Name(), lockSuffix) {
			fi, err := f.Info()
			beside = beside && err == nil && fi.Size() == 0 // else it is not ours, such as yarn.lock
		}
		if beside {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var handles []Handle
	for _, name := range slices.Compact(names) {
		if h, err := OpenHandle(filepath.Join(dir, name)); err == nil {
			handles = append(handles, h)
		}
	}
	return handles, nil
}

// baseName returns the name of the handle that a file belongs to, and whether the file is one
// beside the names.
func baseName(file string) (name string, beside bool) {
	for _, suffix := range []string{nextSuffix, lockSuffix, jsonSuffix} {
		if name, beside := strings.CutSuffix(file, suffix); beside && name != "" {
			return name, true
		}
	}
	return file, false
}

// Sweep removes the files that killed processes left of a handle that is gone, and reports
// whether it did. A record without its names is removed only if it was written before old: a
// script may be moving the names. What is no handle stays as it is, and is the error. Sweep blocks for
// the handle's lock until ctx ends.
func (h Handle) Sweep(ctx context.Context, old time.Time) (removed bool, err error) {
	if _, err := h.Read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err // without a lock file that would stay
	}
	err = h.Update(ctx, func(tx *Tx) error {
		if tx.State != "" {
			return errKeep
		}
		for _, path := range []string{h.jsonPath(), h.nextPath()} {
			if fi, err := os.Lstat(path); err == nil && fi.ModTime().After(old) {
				return errKeep
			}
		}
		return nil // then Update removes all files
	})
	if errors.Is(err, errKeep) {
		return false, nil
	}
	return err == nil, err
}

// errKeep ends an Update that must not write.
var errKeep = errors.New("keep")

// isTemp tells whether a file has a name that writeTemp makes.
func isTemp(name string) bool {
	at := strings.LastIndex(name, ".tmp")
	return at > 1 && name[0] == '.' && at+len(".tmp") < len(name) && strings.Trim(name[at+len(".tmp"):], "0123456789") == ""
}

// SweepTemp removes temporary files of this package from a directory that were written before
// old, and returns their paths. A live process needs such a file for less than a second.
func SweepTemp(dir string, old time.Time) (removed []string, err error) {
	files, err := filesIn(dir)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var errs []error
	for _, f := range files {
		if !f.Type().IsRegular() || !isTemp(f.Name()) {
			continue
		}
		info, err := f.Info()
		if err != nil || info.ModTime().After(old) {
			continue
		}
		path := filepath.Join(dir, f.Name())
		if _, err := os.Lstat(path + jsonSuffix); err == nil {
			continue // the names of a handle that somebody gave such a name
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		removed = append(removed, path)
	}
	return removed, errors.Join(errs...)
}
