package follow

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// While nothing is written, nothing wakes up.
func TestQuiet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	add(t, path, "something\n")
	w := newWaker(path)
	defer w.close()
	w.arm()
	if w.polls {
		t.Skip("nothing says when a file changes here")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*pollEvery)
	defer cancel()
	begin := time.Now()
	if w.wait(ctx); time.Since(begin) < 2*pollEvery {
		t.Errorf("it woke up after %v", time.Since(begin))
	}
}
