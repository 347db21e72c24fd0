package dial

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A token that arrives in a pipe after a caller has stopped waiting is kept for the next
// caller. Before this was mended, recover of two entries went on without the token.
func TestPipeThatWasGivenUp(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	d := New(Options{TokenFile: pipe}, t.TempDir(), new(said))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if token, err := d.token(ended); err == nil {
		t.Fatalf("token %q of a pipe that nobody wrote", token)
	}
	if err := os.WriteFile(pipe, []byte("token\n"), 0); err != nil {
		t.Fatal(err)
	}
	if token, err := d.token(t.Context()); token != "token" || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
}

// A device or a pipe that never ends, or a large file, is no token and no authority: reading it ends
// soon, with an error that says so. Before, all of it was kept in memory.
func TestTokenWithoutEnd(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, 1<<40)); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if w, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
			for err == nil { // until its reader has closed it
				_, err = w.Write(make([]byte, 4096))
			}
			w.Close()
		}
	}()
	for _, path := range []string{"/dev/zero", large, pipe} {
		d := New(Options{TokenFile: path, CAFile: path}, t.TempDir(), new(said))
		if _, err := d.token(t.Context()); err == nil || !strings.Contains(err.Error(), path+" has more than 65536 bytes") {
			t.Errorf("token: %v", err)
		}
		if path == pipe {
			continue // its text is read once
		}
		d.TokenFile = ""
		if _, err := d.Dial(t.Context(), "https://proxy.test"); err == nil || !strings.Contains(err.Error(), path+" has more than") {
			t.Errorf("CA: %v", err)
		}
	}
}
