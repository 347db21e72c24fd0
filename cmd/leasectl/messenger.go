package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// messenger writes lines to stderr, and below them, on a terminal, one live line
// that is written over. Nobody who says something waits for the write: stderr
// may be a pipe that is full and that nobody reads. What does not fit into its
// queue is dropped, and counted.
//
// stderr is not made non-blocking for that: it may be shared with other
// processes, and the mode belongs to the open file, not to the descriptor.
type messenger struct {
	out   *os.File
	ready <-chan struct{} // closed when a write to a closed out is an error, not the end of the program
	live  bool            // out is a terminal that can write over a line

	begin   sync.Once
	end     sync.Once
	more    chan struct{} // holds one when queue may have grown
	written chan struct{} // closed when the last message is written

	mu      sync.Mutex
	queue   []message
	limit   int // of queue
	dropped int // since the last message that was queued
}

// message is one thing to do at stderr.
type message struct {
	line    string        // to print; "" is none
	live    string        // to show as the live line; "" clears it
	written chan struct{} // if not nil, closed when the message's turn comes
	last    bool          // nothing is written after it
}

const (
	// queueSize is far more lines than a command says in a row.
	queueSize = 256
	// logSize is how many lines of a server may wait: a second of its busiest
	// time, and some 5 MB.
	logSize = 16 << 10
	// flushTime is what order is worth: it delays a command once if nobody
	// reads stderr.
	flushTime = 100 * time.Millisecond
	// closeTime is how long the end of the program waits for a reader of what
	// was said last: a pager or a log collector that is busy.
	closeTime = time.Second
)

func newMessenger(out *os.File, ready <-chan struct{}) *messenger {
	return &messenger{
		out:     out,
		ready:   ready,
		live:    term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb",
		more:    make(chan struct{}, 1),
		written: make(chan struct{}),
		limit:   queueSize,
	}
}

// say prints a line, as soon as those before it are written.
func (m *messenger) say(line string) { m.send(message{line: line}) }

// Write implements [io.Writer] for a log, whose lines then keep their order with
// what is said. It never blocks, and never fails.
func (m *messenger) Write(line []byte) (int, error) {
	m.say(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// enlarge makes room for the log of a server.
func (m *messenger) enlarge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = logSize
}

// show replaces the live line; "" clears it.
func (m *messenger) show(text string) { m.send(message{live: text}) }

// flush waits until what was said is written, for flushTime at most.
func (m *messenger) flush() {
	written := make(chan struct{})
	m.send(message{written: written})
	select {
	case <-written:
	case <-time.After(flushTime):
	}
}

// close writes what is left, for closeTime at most. Later messages are
// not written.
func (m *messenger) close() {
	m.end.Do(func() {
		m.begin.Do(func() { close(m.written) }) // nothing was said
		m.send(message{last: true})
		select {
		case <-m.written:
		case <-time.After(closeTime):
		}
	})
}

func (m *messenger) send(msg message) {
	m.begin.Do(func() { go m.write() })
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) >= m.limit && !msg.last {
		m.dropped++
		return
	}
	m.queue = append(m.queue, m.gap(msg)...)
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// gap returns msg, and before it how many were dropped since the last one. The
// caller holds m.mu.
func (m *messenger) gap(msg ...message) []message {
	if m.dropped == 0 {
		return msg
	}
	text := fmt.Sprintf("leasectl: %d lines were dropped here: nobody read stderr", m.dropped)
	m.dropped = 0
	return append([]message{{line: text}}, msg...)
}

// next returns the message that is first in the queue, and blocks until there is
// one.
func (m *messenger) next() message {
	for {
		m.mu.Lock()
		if len(m.queue) == 0 {
			m.queue = m.gap()
		}
		if len(m.queue) > 0 {
			msg := m.queue[0]
			m.queue = m.queue[1:]
			m.mu.Unlock()
			return msg
		}
		m.mu.Unlock()
		<-m.more
	}
}

// write does what is in the queue, up to the last message.
func (m *messenger) write() {
	defer close(m.written)
	<-m.ready
	shown := false
	for {
		msg := m.next()
		if shown {
			fmt.Fprint(m.out, eraseLine)
			shown = false
		}
		if msg.line != "" {
			fmt.Fprintln(m.out, msg.line)
		}
		if msg.live != "" {
			fmt.Fprint(m.out, m.fit(msg.live))
			shown = true
		}
		if msg.written != nil {
			close(msg.written)
		}
		if msg.last {
			return
		}
	}
}

// eraseLine is carriage return and "erase in line" of ECMA-48, section 8.3.41.
const eraseLine = "\r\x1b[K"

// fit cuts what does not fit into the terminal's line: it could not be written
// over.
func (m *messenger) fit(text string) string {
	width, _, err := term.GetSize(int(m.out.Fd()))
	if err != nil {
		return text
	}
	return cut(text, width)
}

// cut cuts text so that the cursor stays in a line of width characters. A width
// that nobody knows is 0 or 1.
func cut(text string, width int) string {
	if width <= 1 || utf8.RuneCountInString(text) < width {
		return text
	}
	return string([]rune(text)[:width-1])
}
