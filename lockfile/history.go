package lockfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/leaseapi/object"
)

// History is the path of a directory in which a machine remembers the grants that its processes
// got. So a bare name has a meaning: the newest grant of it, and whether that grant was given
// back.
//
// It remembers only the newest grant of each name at each store: when a name is granted again,
// every earlier grant of it has ended. It forgets a name that was neither granted nor given
// back for eight days, and the oldest names beyond some thousand.
//
// Each name has a file, a log to which a line is added when the name is granted and when it is
// given back. The file is its own lock: processes that take different names do not wait for
// each other. An incomplete line was written by a process that was killed before anybody relied
// on the line; it is skipped.
type History string

const (
	// historyKept is longer than the longest delay of a release, a week.
	historyKept = 8 * 24 * time.Hour
	// historyMost is how many files there may be, of 4 KiB of disk each.
	historyMost = 4096
	// historyFile is the most bytes of one file, unless one grant alone is longer. A line that
	// would make the file longer is merged with all lines before it, and replaces them.
	historyFile = 4096
)

// historyLine is one line: a grant of a name, or a grant that was given back. The latter counts
// only if an earlier line has the grant.
type historyLine struct {
	Format    int     `json:"format"`
	Grants    []Grant `json:"grants"`
	GivenBack []Grant `json:"given_back"`
}

// Of returns the newest grant of a name at each store.
func (h History) Of(name string) ([]Grant, error) {
	grants, err := readGrants(h.path(name), name)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return grants, nil
}

// All returns the newest grant of every name at each store. Beside an error it returns the
// grants of the files that could be read.
func (h History) All() ([]Grant, error) {
	files, err := byAge(string(h), "")
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

// Add remembers grants. It makes the directory, but not its parent. It blocks only while
// another process writes the same name, until ctx ends.
func (h History) Add(ctx context.Context, grants []Grant) error {
	err := MakeDir(string(h))
	for _, g := range grants {
		if err != nil {
			break
		}
		var isNew bool
		isNew, err = h.append(ctx, g.Name, historyLine{Grants: []Grant{g}})
		if isNew && h.prunes(g.Name) {
			h.prune()
		}
	}
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// NoteGivenBack remembers that grants were given back. For a grant that is not remembered, or
// whose name was granted again, it does nothing and returns no error. It blocks as
// [History.Add] does.
func (h History) NoteGivenBack(ctx context.Context, grants []Grant) error {
	var errs []error
	for _, g := range grants {
		if _, err := os.Lstat(h.path(g.Name)); err != nil {
			continue
		}
		g.GivenBack = FileTime()
		_, err := h.append(ctx, g.Name, historyLine{GivenBack: []Grant{g}})
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// path returns the path of a name's file. It has a hash of the name, since a name may be "..",
// or longer than some file systems allow.
func (h History) path(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(string(h), hex.EncodeToString(sum[:16]))
}

// append adds a line to the file of a name, under its lock, and reports whether the file was
// empty before.
func (h History) append(ctx context.Context, name string, line historyLine) (isNew bool, err error) {
	path := h.path(name)
	err = underLock(path, waitingEvery(ctx, historyRetry), func() error {
		var err error
		isNew, err = line.appendTo(path, name)
		return err
	})
	return isNew, err
}

func (l historyLine) appendTo(path, name string) (isNew bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var content bytes.Buffer
	content.Grow(historyFile + bytes.MinRead) // for all but a grant with the longest paths
	if _, err := content.ReadFrom(io.LimitReader(f, maxFile)); err != nil {
		return false, err
	}
	old := content.Bytes()
	if err := checkLines(old); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	data, err := l.encode()
	if err == nil && len(old)+len(data) <= historyFile {
		_, err = f.Write(data)
		return len(old) == 0, err
	}
	if err == nil {
		data, err = encodeGrants(l.after(grantsIn(old, name)))
	}
	if err != nil {
		return false, err
	}
	return false, apply(replace(path, data)) // the last act under the lock, since it replaces the locked file
}

// historyRetry is how long a waiter sleeps between two tries. It is short, since a write takes
// some ten microseconds, and the process that gives a name back often meets the process that is
// granted the name next.
const historyRetry = 200 * time.Microsecond

// encode returns a line with a newline before it, so that an incomplete line spoils no other.
func (l historyLine) encode() ([]byte, error) {
	o := object.New()
	o.Int("format", plainFormat)
	object.ListIf(&o, "grants", l.Grants, Grant.appendTo)
	object.ListIf(&o, "given_back", l.GivenBack, Grant.appendTo)
	return append([]byte{'\n'}, o.End()...), o.Err()
}

// after returns the grants that are known after line l, if grants were known before it.
func (l historyLine) after(grants []Grant) []Grant {
	for _, g := range l.Grants {
		at := slices.IndexFunc(grants, func(o Grant) bool { return o.Name == g.Name && o.Store == g.Store })
		switch {
		case at < 0:
			grants = append(grants, g)
		case !g.before(grants[at]):
			grants[at] = g
		}
	}
	for _, g := range l.GivenBack {
		for i := range grants {
			if grants[i].Is(g) && grants[i].GivenBack.IsZero() {
				grants[i].GivenBack = g.GivenBack
			}
		}
	}
	return grants
}

// encodeGrants returns the content of a file as one line. If the line is too long, the oldest
// grants are left out.
func encodeGrants(grants []Grant) ([]byte, error) {
	for {
		data, err := historyLine{Grants: grants}.encode()
		if err != nil || len(data) <= historyFile || len(grants) < 2 {
			return data, err
		}
		oldest := slices.MinFunc(grants, func(a, b Grant) int { return a.At.Compare(b.At) })
		grants = slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return g.Store == oldest.Store })
	}
}

// readGrants reads one file; a missing file has no grants. If name is not "", it returns only
// grants of that name.
func readGrants(path, name string) ([]Grant, error) {
	data, err := readOwn(path)
	if err != nil {
		return nil, err
	}
	if err := checkLines(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return grantsIn(data, name), nil
}

// ourLine is the beginning of each line that this program writes.
var ourLine = []byte(`{"format":1,`)

// checkLines returns [ErrNewer] if a newer program wrote a line of a file. It does not decode
// the lines of this program.
func checkLines(data []byte) error {
	for line := range bytes.Lines(data) {
		if len(line) > 1 && !bytes.HasPrefix(line, ourLine) {
			if err := checkFormat(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// grantsIn returns the grants that are known from the lines of a file; of one name, unless name
// is "".
func grantsIn(data []byte, name string) (grants []Grant) {
	for text := range bytes.Lines(data) {
		var line historyLine
		if json.Unmarshal(text, &line) == nil {
			grants = line.after(grants)
		}
	}
	return slices.DeleteFunc(withValidNames(grants), func(g Grant) bool { return name != "" && g.Name != name })
}

// prunes reports whether the first grant of a name also prunes the directory: that of one name
// in 64 does.
func (h History) prunes(name string) bool {
	return sha256.Sum256([]byte(name))[31]%64 == 0
}

// prune removes the files that are too old, or too many.
func (h History) prune() { forget(h.outdated()) }

func (h History) outdated() []agedFile {
	files, _ := byAge(string(h), "") // the oldest first
	n := 0
	for n < len(files) && (len(files)-n > historyMost || time.Since(files[n].at) > historyKept) {
		n++
	}
	return files[:n]
}

// forget removes files, except a file that was written after it was listed: its name was
// granted again. A file that cannot be removed is left to the next call.
func forget(files []agedFile) {
	for _, f := range files {
		TryLock(f.path, func() error {
			fi, err := os.Lstat(f.path)
			if err != nil || fi.Size() > 0 && !fi.ModTime().Equal(f.at) { // empty: another process removed it, and TryLock made it again
				return err
			}
			return os.Remove(f.path)
		})
	}
}
