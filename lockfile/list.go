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

	"github.com/leasectl/leasectl/internal/own"
	"github.com/leasectl/leasectl/leaseapi"
)

// List is the path of a file to which several handles add their names, one a line. Lines that
// others wrote are kept byte for byte. Every change replaces the file under a lock on the path
// with .lock added; the lock file stays. A List makes no directory.
//
// The file beside it, with .json added, says which grants the lines are of. If it says nothing
// of a line, only the name is known.
type List string

// Read returns the grants in the list, none if the list does not exist, and when it was last
// written. If only the name of a line is known, the grant has nothing else. Lines that are no
// names are reported in the error; the grants of the other lines are returned all the same.
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

// CanAppend returns nil if an Append would succeed now. It takes the lock, waiting for it until
// ctx ends, reads the list and writes a temporary file beside it, but does not change the list.
func (l List) CanAppend(ctx context.Context) error {
	return l.update(ctx, func(old listText) error {
		longest := strings.Repeat("x", leaseapi.MaxName)
		return own.As(filepath.Dir(l.path()), func() error {
			temp, err := writeTemp(l.changeLines(old, []string{longest}))
			if err != nil {
				return err
			}
			return os.Remove(temp)
		})
	})
}

// Remove removes one line for each grant. If the line or the list is missing, that is no error.
// A line of another grant of the same name stays. If only the name of the grant or of the line
// is known, the names decide. The file stays, even if it becomes empty. Remove blocks for the
// lock until ctx ends.
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
		err = refusal(l.path()) // without a lock file that would stay
	}
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

// read is load for a caller without the lock; a list in a missing directory is empty.
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

// listDoc is the content of the file beside a list.
type listDoc struct {
	Format int     `json:"format"`
	Grants []Grant `json:"grants"`
}

// readKnown reads the grants beside the list; a broken file has none, and of a broken grant only the name
// is known.
func (l List) readKnown() ([]Grant, error) {
	data, err := readOwn(l.jsonPath())
	if err != nil {
		return nil, err
	}
	var doc listDoc
	switch err := unmarshal(data, &doc); {
	case errors.Is(err, ErrNewer):
		return nil, fmt.Errorf("%s: %w", l.jsonPath(), err)
	case err != nil:
		return nil, nil
	}
	return valid(doc.Grants), nil
}

// changeKnown returns the change that writes grants beside the list. If they exceed listKnown,
// the oldest are left out.
func (l List) changeKnown(grants []Grant) (change, error) {
	if len(grants) == 0 {
		return remove(l.jsonPath()), nil
	}
	for {
		data, err := json.MarshalIndent(listDoc{format, grants}, "", " ")
		if err != nil {
			return change{}, err
		}
		if len(data) < listKnown {
			return replace(l.jsonPath(), append(data, '\n')), nil
		}
		grants = grants[(len(grants)+9)/10:]
	}
}

// listKnown is the most bytes of the file beside a list: the file becomes part of a secret of a
// container platform, which holds 1 MiB, and so do all other files of a test.
const listKnown = 128 << 10

// path is cleaned, since with a slash at its end the paths of the files beside it would be
// wrong.
func (l List) path() string     { return filepath.Clean(string(l)) }
func (l List) jsonPath() string { return l.path() + jsonSuffix }
