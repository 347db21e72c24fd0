package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/leasectl/leasectl/leaseapi"
)

// MaxLog is the largest size of a log, in bytes. A log that would be larger loses its older half.
const MaxLog = 1 << 20

const (
	maxTail  = 8 << 10  // of the output, that is kept in memory for messages
	maxLines = 10       // in a message
	maxLine  = 300      // of a line in a message
	maxReady = 64 << 10 // of a line that is looked at: what follows is no part of a variable
)

// output is what a service prints. Errors of its log are ignored: the service goes on.
type output struct {
	mu   sync.Mutex
	log  *os.File // nil: it cannot be written
	size int64
	tail []byte
}

func openOutput(path string) *output {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		f = nil
	}
	return &output{log: f}
}

func (o *output) close() {
	if o.log != nil {
		o.log.Close()
	}
}

// copy takes over what comes from r, until its end. It calls line, unless that is nil, with each
// line.
func (o *output) copy(r io.Reader, line func(string)) {
	buffer := make([]byte, 32<<10)
	var begun []byte // a line that has not ended
	for {
		n, err := r.Read(buffer)
		o.write(buffer[:n])
		for rest := buffer[:n]; line != nil && len(rest) > 0; {
			part, after, ended := bytes.Cut(rest, []byte("\n"))
			begun = append(begun, part[:min(len(part), maxReady-len(begun))]...)
			if rest = after; ended {
				line(strings.TrimSuffix(string(begun), "\r"))
				begun = begun[:0]
			}
		}
		if err != nil {
			if line != nil && len(begun) > 0 {
				line(string(begun))
			}
			return
		}
	}
}

func (o *output) write(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = append(o.tail, data...)
	if more := len(o.tail) - maxTail; more > 0 {
		o.tail = append(o.tail[:0], o.tail[more:]...)
	}
	if o.log == nil {
		return
	}
	if o.size+int64(len(data)) > MaxLog {
		o.halve()
	}
	n, _ := o.log.WriteAt(data, o.size)
	o.size += int64(n)
}

// halve drops the older half of the log.
func (o *output) halve() {
	kept := make([]byte, min(o.size, MaxLog/2))
	n, _ := o.log.ReadAt(kept, o.size-int64(len(kept)))
	written, _ := o.log.WriteAt(kept[:n], 0)
	o.size = int64(written)
	o.log.Truncate(o.size)
}

func (o *output) lastLines() []string {
	o.mu.Lock()
	lines := linesOf(o.tail)
	o.mu.Unlock()
	lines = lines[max(0, len(lines)-maxLines):]
	for i := range lines {
		lines[i] = leaseapi.Clip(lines[i], maxLine)
	}
	return lines
}

// linesOf returns the lines of data that have text, made printable.
func linesOf(data []byte) (lines []string) {
	for line := range strings.SplitSeq(string(data), "\n") {
		if line = leaseapi.Printable(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// DefaultReady matches NAME='value' and NAME=value with an upper-case NAME.
const DefaultReady = `^\s*([A-Z][A-Z0-9_]*)=(.*)$`

// Check tells whether an expression can say which variables a line has: it has two groups, for a
// name and its value, or named groups, each of which is a variable, or none, so that there are no
// variables. If not, the error says what is wanted.
func Check(expression string) error {
	ready, err := regexp.Compile(expression)
	if err != nil {
		return fmt.Errorf("want a regular expression (RE2): %w", err)
	}
	named, unnamed := 0, 0
	for _, name := range ready.SubexpNames()[1:] {
		if name == "" {
			unnamed++
		} else {
			named++
		}
	}
	if named > 0 && unnamed == 0 || named == 0 && (unnamed == 0 || unnamed == 2) {
		return nil
	}
	return errors.New("want two groups, for the name of a variable and its value, or named groups such as (?P<ADDRESS>.*), or none: (?:…) groups without a variable")
}

// reserved begins the names of leasectl's own variables, which a service does not set.
const reserved = "LEASE"

// Variables tells whether a line says that a service is ready, and returns the variables that the
// line has. A value in single or double quotes is taken without them.
func Variables(ready *regexp.Regexp, line string) (variables []string, is bool) {
	match := ready.FindStringSubmatch(line)
	if match == nil {
		return nil, false
	}
	set := func(name, value string) {
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '\'' || value[0] == '"') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		if name != "" && !strings.HasPrefix(name, reserved) && !strings.ContainsAny(name, "=\x00") && !strings.Contains(value, "\x00") {
			variables = append(variables, name+"="+value)
		}
	}
	names := ready.SubexpNames()
	if len(names) == 3 && names[1] == "" {
		set(match[1], match[2])
		return variables, true
	}
	for i, name := range names {
		if name != "" {
			set(name, match[i])
		}
	}
	return variables, true
}
