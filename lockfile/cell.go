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
	"syscall"
)

// Cell is the path of a small file of JSON that is its own lock. Each change is a line at its end,
// written in place: a file that is renamed over it would not be locked. The last whole line
// counts, so a kill or a full disk leaves the value before the change or the one after it.
//
// The lock is meant to be held as long as what the value says is being done. So whoever finds a
// value that only a process at work leaves behind, under the lock, knows that this process died.
type Cell string

// CellTx is a Cell under its lock, inside [Cell.Update].
type CellTx struct {
	path    string
	value   []byte // the last whole line; empty: none
	size    int64
	removed bool
}

const cellSuffix = ".cell"

// CellIn returns the cell of a name, such as a hash, in a directory.
func CellIn(dir, name string) Cell { return Cell(filepath.Join(dir, name+cellSuffix)) }

// Cells returns the cells in a directory, the one that was written least recently first; none if
// there is no directory.
func Cells(dir string) (cells []Cell, err error) {
	files, err := byAge(dir, cellSuffix)
	for _, f := range files {
		cells = append(cells, Cell(f.path))
	}
	return cells, err
}

// Update locks the cell and calls fn, which reads and changes its value. It blocks for the lock
// until ctx ends; a ctx that ends later has no effect. The directory must exist. A cell without a
// value has no file once Update returns.
func (c Cell) Update(ctx context.Context, fn func(tx *CellTx) error) error {
	return c.update(func(fn func() error) error { return WithLock(ctx, string(c), fn) }, fn)
}

// TryUpdate is Update without the wait: if the lock is not free, the error is [ErrLocked].
func (c Cell) TryUpdate(fn func(tx *CellTx) error) error {
	return c.update(func(fn func() error) error { return TryLock(string(c), fn) }, fn)
}

func (c Cell) update(underLock func(func() error) error, fn func(tx *CellTx) error) error {
	err := underLock(func() error {
		tx := &CellTx{path: string(c)}
		if err := tx.read(); err != nil {
			return err
		}
		defer tx.tidy()
		return fn(tx)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// Read decodes the value into v without the lock, and reports whether there is one. The errors are
// those of [CellTx.Value].
func (c Cell) Read(v any) (found bool, err error) {
	tx := &CellTx{path: string(c)}
	if err = tx.read(); err == nil {
		found, err = tx.Value(v)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", c, err)
	}
	return found, nil
}

func (tx *CellTx) read() error {
	data, err := readOwn(tx.path)
	if err != nil {
		return err
	}
	tx.size = int64(len(data))
	for line := range bytes.Lines(data) {
		if bytes.HasSuffix(line, []byte("\n")) && len(line) > 1 {
			tx.value = line
		}
	}
	return nil
}

// Checked is a value whose fields are checked before it is written, and when it is read.
type Checked interface{ Check() error }

// Value decodes the value into v, and reports whether there is one. The error is [ErrNewer] if a
// newer program wrote it. It checks a [Checked] value.
func (tx *CellTx) Value(v any) (found bool, err error) {
	if len(tx.value) == 0 {
		return false, nil
	}
	err = unmarshal(tx.value, v)
	if c, ok := v.(Checked); ok && err == nil {
		err = c.Check()
	}
	switch {
	case errors.Is(err, ErrNewer):
		return false, err
	case err != nil:
		return false, fmt.Errorf("broken (%w): look at it, and remove it if it says nothing", err)
	}
	return true, nil
}

// Set writes v, a struct, at once. After an error the value is as before.
func (tx *CellTx) Set(v any) error {
	if c, ok := v.(Checked); ok {
		if err := c.Check(); err != nil {
			return err
		}
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, `{"format":%d,%s`+"\n", format, data[1:])
	f, err := os.OpenFile(tx.path, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	// The newline before the line ends a part of a line that a killed process left.
	_, err = f.WriteAt(append([]byte("\n"), line...), tx.size)
	if err != nil {
		f.Truncate(tx.size) // without a whole line the rest does no harm
		return errors.Join(err, f.Close())
	}
	tx.size += int64(len(line)) + 1
	tx.value, tx.removed = line, false
	return f.Close()
}

// Remove removes the cell. It must be the last act under the lock.
func (tx *CellTx) Remove() error {
	err := os.Remove(tx.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	tx.removed = err == nil
	return err
}

// tidy removes the file that the lock made, if the cell has no value.
func (tx *CellTx) tidy() {
	if len(tx.value) == 0 && !tx.removed {
		os.Remove(tx.path)
	}
}
