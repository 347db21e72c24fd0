package follow

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A log, or a directory of it, may be made at any moment while the waker arms itself: a later
// write ends the next wait.
func TestWakerMissesNothing(t *testing.T) {
	t.Parallel()
	for _, log := range []string{"log", filepath.Join("a", "b", "log")} {
		dir := t.TempDir()
		for round := range 300 {
			path := filepath.Join(dir, fmt.Sprint(round), log)
			if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(round)), 0o700); err != nil {
				t.Fatal(err)
			}
			w := newWaker(path)
			var making sync.WaitGroup
			making.Go(func() { add(t, path, "one\n") })
			w.arm()
			making.Wait()
			if w.polls {
				w.close()
				t.Skip("nothing can be watched here")
			}
			add(t, path, "two\n")
			w.queue.SetReadDeadline(time.Now().Add(10 * time.Second))
			_, err := w.queue.Read(w.read)
			w.close()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s: nothing was heard of it", log)
			}
		}
	}
}

// While nothing is written, nothing wakes up.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for _, log := range []string{"log", filepath.Join("not", "there")} {
		dir := t.TempDir()
		add(t, filepath.Join(dir, "log"), "something\n")
		w := newWaker(filepath.Join(dir, log))
		defer w.close()
		w.arm()
		if w.polls {
			t.Skip("nothing says when a file changes here")
		}
		w.arm() // as after each change
		w.queue.SetReadDeadline(time.Now().Add(2 * pollEvery))
		if n, err := w.queue.Read(w.read); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: it woke up: %d bytes, %v", log, n, err)
		}
	}
}

// A log that inotify cannot watch, such as one below a file that may become a directory, is
// polled.
func TestWakerPolls(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	add(t, file, "no directory\n")
	w := newWaker(filepath.Join(file, "log"))
	defer w.close()
	if w.arm(); !w.polls {
		t.Error("it waits for inotify")
	}
}
