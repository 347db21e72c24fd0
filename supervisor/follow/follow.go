package follow

import (
	"context"
	"io"
	"os"
	"syscall"
)

// Log is a file that somebody may write to.
type Log struct {
	path   string
	lines  lines
	file   *os.File // nil: it is not there, or is no regular file
	offset int64    // of what was not read yet
}

// New returns the log at a path as it is now: only what is written from now on is
// looked at. What is there stays open until Find returns, so that no later file can pass
// for it.
func New(path string) *Log {
	l := &Log{path: path}
	if info, err := os.Stat(path); err == nil && l.open(info) {
		l.offset, _ = l.file.Seek(0, io.SeekEnd)
	}
	return l
}

// Find returns the first line for which match is true. It blocks until there is one,
// or until ctx has ended and what was written before that is read; then ok is false.
// The line is without its end, and valid for good.
func (l *Log) Find(ctx context.Context, match func(line []byte) bool) (line string, ok bool) {
	defer l.close()
	l.lines.match = match
	changes := newWaker(l.path)
	defer changes.close()
	for {
		over := ctx.Err() != nil
		changes.arm()
		if l.look() || over && l.lines.end() {
			return l.lines.found, true
		}
		if over {
			return "", false
		}
		changes.wait(ctx)
	}
}

// look reads what was written since the last look, and reports whether a line of it
// matches.
func (l *Log) look() bool {
	now, err := os.Stat(l.path)
	if l.file != nil && (err != nil || !sameFile(l.file, now)) {
		if l.read() || l.lines.end() { // the rest of what was there
			return true
		}
		l.close()
	}
	if l.file == nil && (err != nil || !l.open(now)) {
		return false
	}
	return l.read()
}

// open begins to read the file that is there now.
func (l *Log) open(now os.FileInfo) bool {
	if !now.Mode().IsRegular() {
		return false // reading a pipe would take what is another's
	}
	file, err := os.OpenFile(l.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	l.file, l.offset = file, 0
	return true
}

// read reads to where the file ends now.
func (l *Log) read() bool {
	info, err := l.file.Stat()
	if err != nil {
		return false
	}
	if info.Size() < l.offset { // it begins anew
		l.offset = 0
		l.lines.reset()
	}
	buf := l.lines.buffer()
	for l.offset < info.Size() { // what comes meanwhile is for the next look
		n, err := l.file.ReadAt(buf, l.offset)
		l.offset += int64(n)
		if l.lines.take(buf[:n]) {
			return true
		}
		if err != nil {
			return false
		}
	}
	return false
}

func (l *Log) close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

func sameFile(f *os.File, other os.FileInfo) bool {
	info, err := f.Stat()
	return err == nil && os.SameFile(info, other)
}
