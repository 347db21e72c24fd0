package follow

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// search is a Find that runs.
type search struct {
	t     *testing.T
	stop  context.CancelFunc
	found chan string // closed after what was found, if anything was
}

// follow looks for lines with "THROTTLED" in what is written to a log from now on.
func follow(t *testing.T, path string) *search {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &search{t, stop, make(chan string, 1)}
	log := New(path)
	go func() {
		defer close(s.found)
		line, ok := log.Find(ctx, func(line []byte) bool { return bytes.Contains(line, []byte("THROTTLED")) })
		if ok {
			s.found <- line
		}
	}()
	return s
}

// wants fails unless line was found; "" means that nothing is found until the end.
func (s *search) wants(line string) {
	s.t.Helper()
	if line == "" {
		s.stop()
	}
	select {
	case found := <-s.found:
		if found != line {
			s.t.Fatalf("found %.80q, want %.80q", found, line)
		}
	case <-time.After(time.Minute):
		s.t.Fatalf("%.80q was not found", line)
	}
}

func write(t *testing.T, path, text string, flags int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, path, text string) { t.Helper(); write(t, path, text, os.O_APPEND) }

// A line may come in pieces.
func TestPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := New(path)
	l.lines.match = func(line []byte) bool { return bytes.HasPrefix(line, []byte("THROTTLED")) }
	for _, piece := range []string{"one\nTHR", "OTT", "LED two"} {
		add(t, path, piece)
		if l.look() {
			t.Fatalf("found %q before its end", l.lines.found)
		}
	}
	if add(t, path, "\r\n"); !l.look() || l.lines.found != "THROTTLED two" {
		t.Errorf("found %q", l.lines.found)
	}
}

// A log and its directories may come later.
func TestLogThatIsNotThereYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "log")
	s := follow(t, path)
	add(t, path, "one\nTHROT")
	add(t, path, "TLED two\r\nthree\n")
	s.wants("THROTTLED two")
}

// Lines that exist before are of an earlier run; lines that are added are not.
func TestLogOfAnEarlierRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	add(t, path, "THROTTLED long ago\n")
	s := follow(t, path)
	add(t, path, "fine\n")
	s.wants("")
	s = follow(t, path)
	add(t, path, "THROTTLED now\n")
	s.wants("THROTTLED now")
}

// A log that is removed and written again is another log, even if the file system gives it the
// inode number of the first.
func TestLogThatIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	add(t, path, "fine\n")
	log := New(path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	add(t, path, "THROTTLED\n")
	ended, end := context.WithCancel(t.Context())
	end()
	if line, ok := log.Find(ended, func(line []byte) bool { return len(line) > 0 }); line != "THROTTLED" {
		t.Errorf("found %q, %t", line, ok)
	}
}

// A log that is truncated, or replaced by another, is read from its beginning.
func TestLogThatBeginsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	add(t, path, strings.Repeat("x", 100)+"\n")
	s := follow(t, path)
	write(t, path, "THROTTLED anew\n", os.O_TRUNC)
	s.wants("THROTTLED anew")

	s = follow(t, path)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add(t, path, "THROTTLED in the next\n")
	s.wants("THROTTLED in the next")

	s = follow(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	add(t, path, "fine\n")
	s.wants("")
}

// When a log is replaced, its rest is read first.
func TestRestOfAReplacedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := New(path)
	l.lines.match = func(line []byte) bool { return strings.Contains(string(line), "THROTTLED") }
	add(t, path, "fine\n")
	if l.look() {
		t.Fatal("found something")
	}
	add(t, path, "THROTTLED at the end")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add(t, path, "fine\n")
	if !l.look() || l.lines.found != "THROTTLED at the end" {
		t.Errorf("found %q", l.lines.found)
	}
}

// A log that cannot be found for a while, such as one that is moved away and back, is not read
// from its beginning: its first lines are of an earlier run. Meanwhile its new lines count, and
// the path is known to be unreadable.
func TestLogThatIsAwayForAWhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	add(t, path, "THROTTLED long ago\n")
	l := New(path)
	l.lines.match = func(line []byte) bool { return bytes.HasPrefix(line, []byte("THROTTLED")) }
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
		if l.look() {
			t.Fatalf("found %q", l.lines.found)
		}
	}
	rename(path, path+".1")
	if err := l.Unread(); err != nil {
		t.Errorf("a log that may come back: %v", err)
	}
	rename(path+".1", path)
	rename(path, path+".1")
	if err := os.Symlink("log", path); err != nil { // to itself, so that nothing can be read there
		t.Fatal(err)
	}
	if l.look() || l.Unread() == nil {
		t.Errorf("found %q, %v", l.lines.found, l.Unread())
	}
	rename(path+".1", path)
	if err := l.Unread(); err != nil {
		t.Errorf("a log that came back: %v", err)
	}
	rename(path, path+".1")
	if add(t, path+".1", "THROTTLED now\n"); !l.look() || l.lines.found != "THROTTLED now" {
		t.Errorf("found %q", l.lines.found)
	}
}

// When a log is rotated, its writer goes on with the old file until it opens the new one.
func TestRotatedLogThatIsStillWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := New(path)
	l.lines.match = func(line []byte) bool { return bytes.HasPrefix(line, []byte("THROTTLED")) }
	add(t, path, "fine\nTHROT")
	if l.look() {
		t.Fatal("found something")
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if add(t, path, ""); l.look() {
		t.Fatalf("found %q", l.lines.found)
	}
	if add(t, path+".1", "TLED\n"); !l.look() || l.lines.found != "THROTTLED" {
		t.Errorf("found %q", l.lines.found)
	}
}

// A last line without an end counts when the command has ended.
func TestLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s := follow(t, path)
	add(t, path, "THROTTLED")
	s.stop()
	s.wants("THROTTLED")
}

// Long and binary lines take no more memory than others.
func TestLongLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := New(path)
	l.lines.match = func(line []byte) bool {
		if len(line) > MaxLine {
			t.Fatalf("a line of %d bytes", len(line))
		}
		return bytes.Contains(line, []byte("THROTTLED"))
	}
	add(t, path, strings.Repeat("\x00\xff", 3*MaxLine)+"THROTTLED too far\n")
	if l.look() || cap(l.lines.rest) > 2*MaxLine {
		t.Errorf("found %.20q, and kept %d bytes", l.lines.found, cap(l.lines.rest))
	}
	add(t, path, "\x00\xffTHROTTLED\x00\n")
	if !l.look() || l.lines.found != "\x00\xffTHROTTLED\x00" {
		t.Errorf("found %q", l.lines.found)
	}
}

// A pipe is left alone: data that is read from it would be missing elsewhere.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	follow(t, path).wants("")
}
