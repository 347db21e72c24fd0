package bolt

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A complete backup replaces an earlier one. Half a backup does not, and leaves no other
// file.
func TestSaveBackup(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	write := func(text string, failure error) func(io.Writer) (int64, error) {
		return func(w io.Writer) (int64, error) {
			n, err := io.WriteString(w, text)
			return int64(n), errors.Join(err, failure)
		}
	}
	cut := errors.New("cut")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{{"first", nil, "first"}, {"half", cut, "first"}, {"second", nil, "second"}} {
		n, err := SaveBackup(path, write(c.text, c.err))
		if n != int64(len(c.text)) || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v", c.text, n, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want {
			t.Errorf("after %s: %q, %v", c.text, got, err)
		}
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("after %s: %v", c.text, files)
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
	read := 0
	write := func(w io.Writer) (int64, error) {
		read++
		n, err := io.WriteString(w, "copy")
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
		if got, err := os.ReadFile(file); err != nil || string(got) != "copy" {
			t.Errorf("there was %s: behind the link is %q, %v", was, got, err)
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
