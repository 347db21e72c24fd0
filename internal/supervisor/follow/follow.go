// Package follow reads a log, line by line, while it is written.
//
//   - The log and its directory need not exist yet. Content that can be read when a [Log] is
//     made is skipped: it is of an earlier run.
//   - A log that was truncated or replaced is read from its beginning. The rest of a replaced
//     log is read first, up to the look that finds data in the next one. A log that is away for
//     a while goes on where it was. A log that was truncated and is longer again before the next
//     look cannot be told from one that has grown.
//   - Only the first [MaxLine] bytes of a line are looked at. They need not be text.
//   - While nothing is written, nothing is done: on Linux, inotify(7) says when the log
//     changes. Elsewhere, where inotify refuses to watch something, and on file systems that
//     others write to, such as NFS, the log is looked at twice a second.
package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Log is a file that another process may write to.
type Log struct {
	path   string
	lines  lines
	file   *os.File    // nil: there is none, or it is no regular file
	info   os.FileInfo // of file, when it was opened
	offset int64       // of the next byte to read
	found  bool        // a file was opened at some time
	unread error       // why the file could not be read at the last look; nil: it was, or there is none
}

// Check returns an error if the file at path can never be read as a log, such as a directory;
// nil if it is a regular file, or does not exist yet.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return check(info)
}

func check(info os.FileInfo) error {
	what := "a device"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe" // reading would take data from its reader
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	}
	return errors.New("want the file that the command writes its log to, and this is " + what)
}

// New returns the log at path. Only data written from now on is looked at. The present file
// stays open until Find returns, so that no later file can be mistaken for it.
func New(path string) *Log {
	l := &Log{path: path}
	if l.open(os.Stat(path)) {
		l.offset, _ = l.file.Seek(0, io.SeekEnd)
	}
	return l
}

// Unread returns why the file could not be read when it was last looked at; nil if it was
// read, or if there is none. It must not be called while Find runs.
func (l *Log) Unread() error {
	if l.unread == nil {
		return nil
	}
	return fmt.Errorf("cannot read log %s: %w", l.path, l.unread)
}

// Found tells whether there ever was a log that could be opened. It must not be called while
// Find runs.
func (l *Log) Found() bool { return l.found }

// Find returns the first line for which match is true, without its line end. It blocks until
// there is one, or until ctx has ended and all data written before is read; then ok is false.
// Find may be called once.
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
	// A new log that is still empty may only have been made for its writer, which goes on with
	// the old one until it opens the new one.
	if l.file != nil && err == nil && now.Size() > 0 && !os.SameFile(l.info, now) {
		if l.read() || l.lines.end() { // the rest of the old file
			return true
		}
		l.close()
	}
	return l.open(now, err) && l.read()
}

// open opens the file, for which os.Stat has returned now and err. A file that is open stays
// open even if it cannot be found: it may come back, and lines of an earlier run with it.
func (l *Log) open(now os.FileInfo, err error) bool {
	if err == nil {
		err = check(now)
	}
	if err == nil && l.file == nil {
		err = l.openFile()
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		err = nil // the file may come later
	}
	l.unread = err
	l.found = l.found || l.file != nil
	return l.file != nil
}

func (l *Log) openFile() error {
	f, err := os.OpenFile(l.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if l.info, err = f.Stat(); err != nil {
		f.Close()
		return err
	}
	l.file, l.offset = f, 0
	return nil
}

// read reads to the present end of the file, and reports whether a line matches.
func (l *Log) read() bool {
	info, err := l.file.Stat()
	if err != nil {
		l.unread = err
		return false
	}
	if info.Size() < l.offset { // the file was truncated
		l.offset = 0
		l.lines.reset()
	}
	buf := l.lines.buffer()
	for l.offset < info.Size() { // later data is for the next look
		n, err := l.file.ReadAt(buf, l.offset)
		l.offset += int64(n)
		if l.lines.take(buf[:n]) {
			return true
		}
		if err == io.EOF { // the file was truncated meanwhile
			return false
		}
		if err != nil {
			l.unread = err
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

// MaxLine is how many bytes of a line are looked at; the rest is ignored.
const MaxLine = 64 << 10

// lines splits data into lines, and looks for one that matches.
type lines struct {
	match func(line []byte) bool
	found string // the line that matched

	buf  []byte // for reading
	rest []byte // of the last line, whose end is not read yet; at most MaxLine bytes
}

func (l *lines) buffer() []byte {
	if l.buf == nil {
		l.buf = make([]byte, 32<<10)
	}
	return l.buf
}

// take takes the next data, and reports whether a line matches.
func (l *lines) take(read []byte) bool {
	for len(read) > 0 {
		line, after, whole := bytes.Cut(read, []byte("\n"))
		read = after
		if len(l.rest) > 0 || !whole {
			l.rest = append(l.rest, line[:min(len(line), MaxLine-len(l.rest))]...)
			line = l.rest
		}
		if !whole {
			return false
		}
		if l.look(line) {
			return true
		}
		l.rest = l.rest[:0]
	}
	return false
}

// end takes the last line although it has no end, and reports whether it matches.
func (l *lines) end() bool {
	defer l.reset()
	return len(l.rest) > 0 && l.look(l.rest)
}

func (l *lines) reset() { l.rest = l.rest[:0] }

func (l *lines) look(line []byte) bool {
	line = bytes.TrimSuffix(line[:min(len(line), MaxLine)], []byte("\r"))
	if !l.match(line) {
		return false
	}
	l.found = string(line)
	return true
}

// pollEvery is how often a log is looked at if no event says when it changes.
const pollEvery = 500 * time.Millisecond

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
