package dial

import (
	"context"
	"os"
	"path/filepath"
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
	d := New(Options{TokenFile: pipe}, t.TempDir(), new(said), nil)
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
