package bolt

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// aStore returns the bytes of a store.
func aStore(t *testing.T) string {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	copied, _, err := s.Backup()
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	text, err := io.ReadAll(copied)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A whole store replaces an earlier one. What is less does not, even if it seems to be complete, and
// leaves no other file.
func TestSaveBackup(t *testing.T) {
	dir := t.TempDir()
	first, second := aStore(t), aStore(t)                                 // with ids of their own
	flipped := strings.ReplaceAll(second, `"generation"`, `"Generation"`) // in the record that has the sums
	path := filepath.Join(dir, "backup")
	write := func(text string, failure error) func(io.Writer) (int64, error) {
		return func(w io.Writer) (int64, error) {
			n, err := io.WriteString(w, text)
			return int64(n), errors.Join(err, failure)
		}
	}
	cut := errors.New("cut")
	for _, c := range []struct {
		name, text string
		err        error
		want       string
	}{
		{"first", first, nil, first}, {"cut", second, cut, first},
		{"half", second[:len(second)/2], store.ErrDamaged, first}, {"nothing", "", store.ErrDamaged, first}, {"a page", "<html>", store.ErrDamaged, first}, {"flipped", flipped, store.ErrDamaged, first},
		{"second", second, nil, second},
	} {
		failure := c.err
		if failure == store.ErrDamaged {
			failure = nil // what arrived seems to be complete
		}
		n, err := SaveBackup(path, write(c.text, failure))
		if n != int64(len(c.text)) || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v", c.name, n, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want {
			t.Errorf("after %s: another content, %v", c.name, err)
		}
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("after %s: %v", c.name, files)
		}
	}
}

// A backup goes to a file: a device, a pipe or a directory is refused before anything is
// read, and stays. A link stays too, and its target is replaced, or made.
func TestSaveBackupPlace(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink("file", link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	read, copied := 0, aStore(t)
	write := func(w io.Writer) (int64, error) {
		read++
		n, err := io.WriteString(w, copied)
		return int64(n), err
	}
	for _, path := range []string{pipe, dir, "/dev/null/backup"} {
		if _, err := SaveBackup(path, write); err == nil || read > 0 {
			t.Errorf("%s: %v, read %d times", path, err, read)
		}
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is %v, %v", info, err)
	}
	for _, was := range []string{"nothing", "a file"} {
		if _, err := SaveBackup(link, write); err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(link); err != nil || to != "file" {
			t.Errorf("there was %s: the link leads to %q, %v", was, to, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != copied {
			t.Errorf("there was %s: behind the link is another content, %v", was, err)
		}
		if err := os.WriteFile(file, []byte("older"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// An open copy does not keep its store from closing, and is no file that one sees beside it.
func TestBackupHoldsUpNothing(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	copied, size, err := s.Backup()
	if err != nil || size == 0 {
		t.Fatal(size, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the store are %q, %v", left, err)
	}
	if err := errors.Join(s.Close(), copied.Close()); err != nil { // bbolt's Close waits for transactions
		t.Error(err)
	}
}
