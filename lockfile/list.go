package lockfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// List is the path of a file to which several handles add their names, one
// a line. Lines that others wrote are kept byte for byte. Every change replaces
// the file under a lock on the path with .lock added; the lock file stays. A List
// makes no directory.
//
// Beside it, with .json added, stands which grants the lines are of. A line that
// it has nothing of is a name and nothing else.
type List string

// Read returns the grants in the list, none if it does not exist, and when it was
// written. Of a line that nothing more is known of, the grant has a name only. Lines
// that are no names are reported in the error, but do not keep the others from
// being returned.
func (l List) Read() (grants []Grant, written time.Time, err error) {
	written = modified(l.path())
	text, err := untilSame(l.read, listText.same)
	if err != nil {
		return nil, written, err
	}
	names, err := parseNames(text.lines)
	if err != nil {
		err = fmt.Errorf("read list %s: %w", l, err)
	}
	known := text.known()
	for _, name := range names {
		grants = append(grants, known.next(name))
	}
	return grants, written, err
}

// Append adds grants at the end. It blocks for the lock until ctx ends.
func (l List) Append(ctx context.Context, grants []Grant) error {
	names := make([]string, len(grants))
	for i, g := range grants {
		names[i] = g.Name
	}
	if err := checkNames(names); err != nil {
		return fmt.Errorf("append to list %s: %w", l, err)
	}
	if len(names) == 0 {
		return nil
	}
	return l.update(ctx, func(old listText) error {
		known, err := l.changeKnown(append(old.grants, onlyIdentified(grants)...))
		if err != nil {
			return err
		}
		return apply(l.changeLines(old, names), known)
	})
}

// CanAppend returns nil if an Append would succeed now. It takes the lock,
// waiting for it until ctx ends, reads the list and writes a temporary file
// beside it, but leaves the list alone.
func (l List) CanAppend(ctx context.Context) error {
	return l.update(ctx, func(old listText) error {
		longest := strings.Repeat("x", leaseapi.MaxName)
		temp, err := writeTemp(l.changeLines(old, []string{longest}))
		if err != nil {
			return err
		}
		return os.Remove(temp)
	})
}

// Remove takes out grants, one line for each; one that is not there, and a list
// that is not there, are fine. A line of another grant of the same name stays. A
// grant with a name only is any line of that name. The file stays, even if it is
// empty then. It blocks for the lock until ctx ends.
func (l List) Remove(ctx context.Context, grants []Grant) error {
	// A list that is missing or empty holds none of the names: no lock is needed.
	if old, err := l.read(); err != nil || len(old.lines) == 0 {
		return err
	}
	return l.update(ctx, func(old listText) error {
		lines, left := old.without(grants)
		if bytes.Equal(lines, old.lines) {
			return nil
		}
		known, err := l.changeKnown(left)
		if err != nil {
			return err
		}
		return apply(change{path: l.path(), data: lines, mode: old.mode}, known)
	})
}

// changeLines returns the change that adds names at the end of the lines.
func (l List) changeLines(old listText, names []string) change {
	data := slices.Clone(old.lines)
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	return change{path: l.path(), data: append(data, formatNames(names)...), mode: old.mode}
}

// update calls fn with the content of the list, under its lock.
func (l List) update(ctx context.Context, fn func(old listText) error) error {
	err := checkDir(filepath.Dir(l.path()))
	if err == nil {
		err = WithLock(ctx, l.path()+lockSuffix, func() error {
			old, err := l.load()
			if err != nil {
				return err
			}
			return fn(old)
		})
	}
	if err != nil {
		return fmt.Errorf("update list %s: %w", l, err)
	}
	return nil
}

// read is load for a caller without the lock; a list without a directory is empty.
func (l List) read() (listText, error) {
	err := checkDir(filepath.Dir(l.path()))
	if errors.Is(err, fs.ErrNotExist) {
		return listText{}, nil
	}
	var text listText
	if err == nil {
		text, err = l.load()
	}
	if err != nil {
		return listText{}, fmt.Errorf("read list %s: %w", l, err)
	}
	return text, nil
}

func (l List) load() (text listText, err error) {
	if text.lines, text.mode, err = readOwnMode(l.path()); err != nil {
		return listText{}, err
	}
	if text.lines == nil {
		text.mode = ownerOnly
	}
	text.grants, err = l.readKnown()
	return text, err
}

// listDoc is what stands beside a list.
type listDoc struct {
	Format int     `json:"format"`
	Grants []Grant `json:"grants"`
}

// readKnown reads what stands beside the list; what is not whole is nothing.
func (l List) readKnown() ([]Grant, error) {
	data, err := readOwn(l.jsonPath())
	if err != nil {
		return nil, err
	}
	var doc listDoc
	switch err := unmarshal(data, &doc, &doc.Format); {
	case errors.Is(err, ErrNewer):
		return nil, fmt.Errorf("%s: %w", l.jsonPath(), err)
	case err != nil:
		return nil, nil
	}
	return withValidNames(doc.Grants), nil
}

// changeKnown returns the change that makes grants what is known beside the list. If they
// are too much, the oldest are left out.
func (l List) changeKnown(grants []Grant) (change, error) {
	if len(grants) == 0 {
		return remove(l.jsonPath()), nil
	}
	for {
		data, err := json.MarshalIndent(listDoc{plainFormat, grants}, "", " ")
		if err != nil {
			return change{}, err
		}
		if len(data) < listKnown {
			return replace(l.jsonPath(), append(data, '\n')), nil
		}
		grants = grants[(len(grants)+9)/10:]
	}
}

// listKnown bounds what is known of a list, in bytes: it becomes part of a secret
// of a container platform, which holds 1 MiB, and so do all other files of a test.
const listKnown = 128 << 10

// path is clean, since a slash at its end would make it another file.
func (l List) path() string     { return filepath.Clean(string(l)) }
func (l List) jsonPath() string { return l.path() + jsonSuffix }
