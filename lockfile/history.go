package lockfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// History is the path of a directory in which a machine remembers the grants that
// its processes got, so that a bare name means more than itself: the newest grant
// of it, and whether that was given back.
//
// Of each name at each store it remembers the newest grant only: when a name is
// granted again, every earlier grant of it has ended. It forgets a name that was
// not granted for eight days, and the oldest beyond some thousand.
//
// Each name has a file, which is its own lock. Processes that take different
// names do not wait for each other. A file that is not whole is of a process that
// was killed before anybody relied on it, and reads as nothing.
type History string

const (
	// historyKept is longer than the longest delay of a release, a week.
	historyKept = 8 * 24 * time.Hour
	// historyMost bounds the files: 4 KiB of disk each.
	historyMost = 4096
	// historyFile is the most bytes of one file. A write within one page is not cut
	// in two by a SIGKILL.
	historyFile = 4096
)

// historyDoc is one file: the grants of one name, the newest of each store.
type historyDoc struct {
	Format int     `json:"format"`
	Grants []Grant `json:"grants"`
}

// Of returns the newest grant of a name at each store.
func (h History) Of(name string) ([]Grant, error) {
	grants, err := readGrants(h.path(name), name)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return grants, nil
}

// All returns the newest grant of every name at each store.
func (h History) All() ([]Grant, error) {
	files, err := h.files()
	var all []Grant
	errs := []error{err}
	for _, f := range files {
		grants, err := readGrants(f.path, "")
		all, errs = append(all, grants...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return all, fmt.Errorf("read history: %w", err)
	}
	return all, nil
}

// Add remembers grants. It makes the directory, but not the one above it. It
// blocks only while another process writes the same name, until ctx ends.
func (h History) Add(ctx context.Context, grants []Grant) error {
	err := MakeDir(string(h))
	for _, g := range grants {
		if err != nil {
			break
		}
		isNew := false
		err = h.update(ctx, g.Name, func(old []Grant) []Grant {
			isNew = len(old) == 0
			at := slices.IndexFunc(old, func(o Grant) bool { return o.Store == g.Store })
			switch {
			case at < 0:
				return append(old, g)
			case !g.before(old[at]):
				old[at] = g
			}
			return old
		})
		if isNew && h.prunes(g.Name) {
			h.prune()
		}
	}
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// GiveBack remembers that grants were given back. A grant that is not remembered,
// or whose name was granted again, is fine.
func (h History) GiveBack(ctx context.Context, grants []Grant) error {
	var errs []error
	for _, g := range grants {
		if _, err := os.Lstat(h.path(g.Name)); err != nil {
			continue
		}
		errs = append(errs, h.update(ctx, g.Name, func(old []Grant) []Grant {
			for i := range old {
				if old[i].Is(g) && old[i].GivenBack.IsZero() {
					old[i].GivenBack = FileTime()
				}
			}
			return old
		}))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// path is that of a name's file. A name may be "..", or longer than file names of
// some file systems.
func (h History) path(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(string(h), hex.EncodeToString(sum[:16]))
}

// update writes what fn makes of the grants of a name, under their lock.
func (h History) update(ctx context.Context, name string, fn func(old []Grant) []Grant) error {
	path := h.path(name)
	return underLock(path, waitingEvery(ctx, historyRetry), func() error {
		old, err := readGrants(path, name)
		if err != nil {
			return err
		}
		data, err := encodeGrants(fn(old))
		if err != nil {
			return err
		}
		return fill(path, data)
	})
}

// historyRetry is how long a waiter sleeps between two tries: a write takes some
// ten microseconds, and who gives a name back often meets who is granted it next.
const historyRetry = 200 * time.Microsecond

// encodeGrants returns the text of a file. If it is too long, the oldest grants
// are left out.
func encodeGrants(grants []Grant) ([]byte, error) {
	for {
		data, err := json.Marshal(historyDoc{plainFormat, grants})
		if err != nil || len(data) < historyFile || len(grants) < 2 {
			return append(data, '\n'), err
		}
		oldest := slices.MinFunc(grants, func(a, b Grant) int { return a.At.Compare(b.At) })
		grants = slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return g.Store == oldest.Store })
	}
}

// readGrants reads one file; none, and one that is not whole, is no grants. A name
// that is not "" must be theirs.
func readGrants(path, name string) ([]Grant, error) {
	data, err := readOwn(path)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	if err := checkFormat(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var doc historyDoc
	if json.Unmarshal(data, &doc) != nil {
		return nil, nil
	}
	return slices.DeleteFunc(doc.Grants, func(g Grant) bool {
		return checkNames([]string{g.Name}) != nil || name != "" && g.Name != name
	}), nil
}

// prunes reports whether the first grant of a name is one of the few that clean up.
func (h History) prunes(name string) bool {
	return sha256.Sum256([]byte(name))[31]%64 == 0
}

type historyEntry struct {
	path string
	at   time.Time
}

// files returns the files, those that were written last first.
func (h History) files() ([]historyEntry, error) {
	if err := checkDir(string(h)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	dir, err := os.ReadDir(string(h))
	if err != nil {
		return nil, err
	}
	var files []historyEntry
	for _, f := range dir {
		if info, err := f.Info(); err == nil && f.Type().IsRegular() { // else it was removed meanwhile
			files = append(files, historyEntry{filepath.Join(string(h), f.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b historyEntry) int { return b.at.Compare(a.at) })
	return files, nil
}

// prune removes the files that are too old, or too many. What it cannot remove,
// the next one does.
func (h History) prune() {
	files, _ := h.files()
	for i, f := range files {
		if i >= historyMost || time.Since(f.at) > historyKept {
			TryLock(f.path, func() error { return os.Remove(f.path) })
		}
	}
}
