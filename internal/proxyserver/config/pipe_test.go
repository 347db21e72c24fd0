package config

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe is read once, and its content is kept. A file is read each time, and fails at once if
// a pipe takes its place.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "one")
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("piped"), 0) }()
	readFile, err := Pipes(t.Context(), []string{pipe, file, pipe}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	reads := func(file, want string) {
		t.Helper()
		if text, err := readFile(file); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v, want %q", file, text, err, want)
		}
	}
	reads(pipe, "piped")
	reads(pipe, "piped")
	reads(file, "one")
	write(file, "two")
	reads(file, "two")
	if err := os.Rename(pipe, file); err != nil {
		t.Fatal(err)
	}
	if text, err := readFile(file); err == nil {
		t.Errorf("a pipe in the place of a file: %q", text)
	}
}

// A file that is far too long is not read whole.
func TestLongFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1<<40); err != nil {
		t.Skip(err) // the file system has no files with holes, or no such long ones
	}
	for _, read := range []func(string) ([]byte, error){readFile, readAgain} {
		if text, err := read(file); err == nil {
			t.Errorf("%d bytes were read", len(text))
		}
	}
}
