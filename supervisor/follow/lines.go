package follow

import "bytes"

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
