package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
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
	out  *os.File
	live bool // out is a terminal that can write over a line

	queue   chan message
	dropped atomic.Int64 // messages since the last that fitted
	begin   sync.Once
	end     sync.Once
	written chan struct{} // closed when the last message is written
}

// message is one thing to do at stderr.
type message struct {
	line    string        // to print; "" is none
	live    string        // to show as the live line; "" clears it
	written chan struct{} // if not nil, closed when the message's turn comes
	last    bool          // nothing is written after it
	dropped int64         // messages that did not fit before it
}

const (
	// queueSize is far more lines than a command says in a row.
	queueSize = 256
	// flushTime is what order is worth: it delays a command once if nobody
	// reads stderr.
	flushTime = 100 * time.Millisecond
	// closeTime is how long the end of the program waits for a reader of what
	// was said last: a pager or a log collector that is busy.
	closeTime = time.Second
)

func newMessenger(out *os.File) *messenger {
	return &messenger{
		out:     out,
		live:    term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb",
		queue:   make(chan message, queueSize),
		written: make(chan struct{}),
	}
}

// say prints a line, as soon as those before it are written.
func (m *messenger) say(line string) { m.send(message{line: line}) }

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

// close writes what is left, for closeTime at most. What is said later is not
// written.
func (m *messenger) close() {
	m.end.Do(func() {
		m.begin.Do(func() { close(m.written) }) // nothing was said
		late := time.After(closeTime)
		select {
		case m.queue <- message{last: true}:
		case <-late:
			return
		}
		select {
		case <-m.written:
		case <-late:
		}
	})
}

func (m *messenger) send(msg message) {
	m.begin.Do(func() { go m.write() })
	msg.dropped = m.dropped.Swap(0)
	select {
	case m.queue <- msg:
	default:
		m.dropped.Add(msg.dropped + 1)
	}
}

// write does what is in the queue, up to the last message.
func (m *messenger) write() {
	defer close(m.written)
	shown := false
	for msg := range m.queue {
		if shown {
			fmt.Fprint(m.out, eraseLine)
			shown = false
		}
		if msg.last {
			msg.dropped = m.dropped.Swap(0)
		}
		if msg.dropped > 0 {
			fmt.Fprintf(m.out, "leasectl: %d lines were dropped here: nobody read stderr\n", msg.dropped)
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
