package lockfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

type noted struct{ Text string }

func textOf(t *testing.T, c Cell) string {
	t.Helper()
	var n noted
	_, err := c.Read(&n)
	ok(t, err)
	return n.Text
}

func setCell(t *testing.T, c Cell, text string) {
	t.Helper()
	ok(t, c.Update(t.Context(), func(tx *CellTx) error { return tx.Set(noted{text}) }))
}

// A cell has the last value that was written whole, and no file without a value.
func TestCell(t *testing.T) {
	dir := t.TempDir()
	c := CellIn(dir, "a")
	gone := func() {
		t.Helper()
		if _, err := os.Lstat(string(c)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is a file: %v", err)
		}
	}
	ok(t, c.Update(t.Context(), func(tx *CellTx) error {
		if found, err := tx.Value(new(noted)); found || err != nil {
			t.Errorf("a new cell has a value: %t, %v", found, err)
		}
		return nil
	}))
	gone()
	setCell(t, c, "one")
	setCell(t, c, "two")
	if got := textOf(t, c); got != "two" {
		t.Errorf("it says %q", got)
	}
	cells, err := Cells(dir)
	ok(t, err)
	if len(cells) != 1 || cells[0] != c {
		t.Errorf("the directory has %q", cells)
	}
	ok(t, c.Update(t.Context(), func(tx *CellTx) error {
		ok(t, os.Remove(string(c))) // as somebody who tidies up
		return tx.Remove()
	}))
	gone()
	if got := textOf(t, c); got != "" {
		t.Errorf("removed, it says %q", got)
	}
}

// A process that is killed while it writes leaves any part of its line. The value is the old one
// until the line is whole.
func TestCellKilled(t *testing.T) {
	c := CellIn(t.TempDir(), "a")
	setCell(t, c, "one")
	before := read(t, string(c))
	setCell(t, c, "two")
	after := read(t, string(c))
	for n := len(before); n <= len(after); n++ {
		write(t, string(c), after[:n])
		want := "one"
		if n == len(after) {
			want = "two"
		}
		if got := textOf(t, c); got != want {
			t.Errorf("after %d of %d bytes it says %q", n, len(after), got)
		}
		setCell(t, c, "three")
		if got := textOf(t, c); got != "three" {
			t.Errorf("written after %d bytes, it says %q", n, got)
		}
	}
	write(t, string(c), after[len(before):len(after)-1]) // the first write, torn
	if got := textOf(t, c); got != "" {
		t.Errorf("a part of a first line says %q", got)
	}
}

// While somebody works under the lock, nobody else does.
func TestCellLocked(t *testing.T) {
	c := CellIn(t.TempDir(), "a")
	ok(t, c.Update(t.Context(), func(tx *CellTx) error {
		if err := c.TryUpdate(func(*CellTx) error { return nil }); !errors.Is(err, ErrLocked) {
			t.Errorf("a second one got in: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Update(ctx, func(*CellTx) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("a second one got in: %v", err)
		}
		return tx.Set(noted{"one"})
	}))
}

// What a newer program wrote, or nobody can read, is refused and left alone.
func TestCellRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"newer": `{"format":99,"Text":"x"}`, "broken": `{"format":1,"Text":`, "of no format": `{"Text":"x"}`} {
		c := CellIn(dir, name)
		write(t, string(c), text+"\n")
		err := c.Update(t.Context(), func(tx *CellTx) error {
			_, err := tx.Value(new(noted))
			return err
		})
		if err == nil || errors.Is(err, ErrNewer) != (name == "newer") {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, string(c)); got != text+"\n" {
			t.Errorf("%s: the file is now %q", name, got)
		}
	}
	if _, err := Cells(filepath.Join(dir, "none")); err != nil {
		t.Errorf("a missing directory: %v", err)
	}
}
