package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
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
	live  bool            // out can write over a line

	begin   sync.Once
	writer  sync.WaitGroup // of write, which nobody waits for: see package stack
	end     sync.Once
	more    chan struct{} // holds one when queue is to be written
	written chan struct{} // closed when the last message is written
	late    *time.Timer   // makes the writer write the lines of a log; nil: there is none

	text  bytes.Buffer // what is written next; of the writer alone, like the next
	shown bool         // a live line is on the terminal

	mu      sync.Mutex
	wrote   time.Time // when the writer last began
	delayed bool      // late is set
	queue   []message
	writing int          // how many were taken off the queue, and are not written yet
	limit   int          // of both
	dropped int          // since the last message that was queued
	lost    int          // in all
	log     slog.Handler // formats what is said of those dropped; nil: there is no log
}

// message is one thing to do at stderr.
type message struct {
	line    string       // to print; "" is none
	log     slog.Handler // formats record into the messenger's text; nil: there is none
	record  slog.Record
	live    string        // to show as the live line; "" clears it
	written chan struct{} // if not nil, closed when the message's turn comes
	last    bool          // nothing is written after it
}

const (
	// queueSize is far more lines than a command says in a row.
	queueSize = 256
	// logSize is how many lines of a server may wait: a second of its busiest
	// time, and some 8 MB.
	logSize = 16 << 10
	// logDelay is for how long the lines of a busy log are collected, to be written
	// at once. To wake the writer for each of them costs as much as to answer a call,
	// and comes before the answer.
	logDelay = 5 * time.Millisecond
	// linesAtOnce is how many lines are written at once at most: some 100 KB.
	linesAtOnce = 256
	// roomKept is for how many messages the room is kept that a full queue needed.
	roomKept = 1024
	// flushTime bounds a flush, which is only for the order of what is printed: if
	// nobody reads stderr, a command is delayed by that once.
	flushTime = 100 * time.Millisecond
	// closeTime is how long the end of the program waits for a reader of what
	// was said last: a pager or a log collector that is busy.
	closeTime = time.Second
)

func newMessenger(out *os.File, ready <-chan struct{}) *messenger {
	return &messenger{
		out:     out,
		ready:   ready,
		live:    canRewrite(out),
		more:    make(chan struct{}, 1),
		written: make(chan struct{}),
		limit:   queueSize,
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
	m.begin.Do(func() { m.writer.Go(m.write) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(&msg)
	m.wake()
}

// sendLater queues a line of a log, which is written together with those that
// follow soon.
func (m *messenger) sendLater(msg *message) {
	m.begin.Do(func() { m.writer.Go(m.write) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(msg)
	switch wait := logDelay - time.Since(m.wrote); {
	case m.delayed:
	case wait <= 0: // a line now and then is written at once
		m.wrote = time.Now()
		m.wake()
	default:
		m.delayed = true
		m.late.Reset(wait)
	}
}

// put queues msg if there is room. The caller holds m.mu.
func (m *messenger) put(msg *message) {
	if len(m.queue)+m.writing >= m.limit && !msg.last {
		m.dropped++
		m.lost++
		return
	}
	m.sayDropped()
	m.queue = append(m.queue, *msg)
}

// wake makes the writer look at the queue.
func (m *messenger) wake() {
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// sayDropped queues a line that says how many messages were dropped since the last one.
// The caller holds m.mu.
func (m *messenger) sayDropped() {
	if m.dropped == 0 {
		return
	}
	msg := message{line: fmt.Sprintf("leasectl: %d lines were dropped here: nobody read stderr", m.dropped)}
	if m.log != nil {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "lines were dropped here: nobody read stderr", 0)
		r.AddAttrs(slog.Int("lines", m.dropped))
		msg = message{record: r, log: m.log}
	}
	m.queue = append(m.queue, msg)
	m.dropped = 0
}

// next takes the messages off the queue, and leaves it room for those to come. It
// blocks until there is one.
func (m *messenger) next(room []message) []message {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if len(m.queue) == 0 {
			m.sayDropped()
		}
		if len(m.queue) > 0 {
			break
		}
		m.delayed = false
		m.mu.Unlock()
		<-m.more
		m.mu.Lock()
	}
	m.wrote = time.Now()
	next := m.queue
	m.queue, m.writing = room, len(next)
	return next
}

func (msg *message) isLine() bool { return msg.line != "" || msg.log != nil }

// write does what is in the queue, up to the last message.
func (m *messenger) write() {
	defer close(m.written)
	<-m.ready
	var room []message
	for {
		next := m.next(room)
		for done := 0; done < len(next); {
			n := done + 1
			for n < min(len(next), done+linesAtOnce) && next[n-1].isLine() {
				n++
			}
			m.writeAtOnce(next[done:n])
			m.mu.Lock()
			m.writing = len(next) - n
			m.mu.Unlock()
			if next[n-1].last {
				return
			}
			done = n
		}
		clear(next) // let go of what they refer to
		if room = next[:0]; cap(room) > roomKept {
			room = nil
		}
	}
}

// writeAtOnce makes one text of messages: each but the last becomes a line.
func (m *messenger) writeAtOnce(messages []message) {
	if m.shown {
		m.text.WriteString(eraseLine)
	}
	lines := 0
	for i := range messages {
		m.format(&messages[i])
		if messages[i].isLine() {
			lines++
		}
	}
	if _, err := m.text.WriteTo(m.out); err != nil { // there is nobody to tell
		m.mu.Lock()
		m.lost += lines // and not dropped: to say so at once would fail, too
		m.mu.Unlock()
	}
	m.text.Reset()
	last := messages[len(messages)-1]
	m.shown = last.live != ""
	if last.written != nil {
		close(last.written)
	}
}

// format adds what msg prints to the text.
func (m *messenger) format(msg *message) {
	switch {
	case msg.line != "":
		fmt.Fprintln(&m.text, msg.line)
	case msg.log != nil:
		msg.log.Handle(context.Background(), msg.record) // a buffer takes all
	case msg.live != "":
		m.text.WriteString(m.fit(msg.live))
	}
}

// canRewrite tells whether out is a terminal that writes over what it shows.
func canRewrite(out *os.File) bool {
	return term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
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
