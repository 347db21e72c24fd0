// Package console writes for people: messages, a log and a live line to stderr, which nobody may be reading,
// and what a terminal needs. It knows nothing of leases.
package console

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/child"
)

// Messenger writes lines to stderr, and on a terminal a live line below them, which it overwrites.
// Its callers never wait for the write, since stderr may be a full pipe that nobody reads.
// Messages that do not Fit into the queue are dropped, and the lines among them counted.
//
// stderr is not made non-blocking instead: the mode belongs to the open file and not to the
// descriptor, and other processes may share the file.
type Messenger struct {
	out  *os.File
	live bool // out is a terminal that can overwrite a line

	begin   sync.Once
	writer  sync.WaitGroup // starts write; nobody waits for its end: see package early
	end     sync.Once
	more    chan struct{} // has a value when write must look at queue
	written chan struct{} // closed when the last message is written
	late    *time.Timer   // wakes write for the lines of a log; nil: there is no log

	text  bytes.Buffer // to be written next; only write uses text and shown
	shown bool         // a live line is on the terminal

	mu      sync.Mutex
	wrote   time.Time // when write last began
	delayed bool      // late will fire
	queue   []message
	writing int          // how many messages are off the queue and not written yet
	limit   int          // of len(queue)+writing
	dropped int          // lines, since the last message that was queued
	lost    int          // lines, in all: dropped, or failed to be written
	log     slog.Handler // formats the line about dropped lines; nil: there is no log
}

// message is one entry of the queue: a line, a log record, a live line or a flush.
type message struct {
	line    string       // to print; "" is none
	log     slog.Handler // formats record into the Messenger's text; nil: no record
	record  slog.Record
	live    string        // to show as the live line; "" clears it
	written chan struct{} // if not nil, closed when all messages before it are written
	last    bool          // nothing is written after it
}

const (
	// queueSize is far more lines than a command prints in a row.
	queueSize = 256
	// LogSize is how many lines of a server may wait: those of a second of its busiest
	// time, some 8 MB.
	LogSize = 16 << 10
	// logDelay is for how long the lines of a busy log are collected, to be written together.
	// Waking the writer for each line costs as much as answering a call, and delays the answer.
	logDelay = 5 * time.Millisecond
	// linesAtOnce is the most lines of one write: some 100 KB.
	linesAtOnce = 256
	// roomKept is the largest capacity of the queue, in messages, that is kept for reuse.
	roomKept = 1024
	// flushTime bounds a flush. A flush only keeps the order of output, so it must not delay a
	// command for long if nobody reads stderr.
	flushTime = 100 * time.Millisecond
	// CloseTime is how long the end of the program waits for a busy reader of stderr, such as a
	// pager or a log collector.
	CloseTime = time.Second
)

func New(out *os.File) *Messenger {
	return &Messenger{
		out:     out,
		live:    CanRewrite(out),
		more:    make(chan struct{}, 1),
		written: make(chan struct{}),
		limit:   queueSize,
	}
}

// Say queues a line.
func (m *Messenger) Say(line string) { m.send(message{line: line}) }

// Show queues a replacement of the live line; "" clears it.
func (m *Messenger) Show(text string) { m.send(message{live: text}) }

// Flush waits until the queued messages are written, for flushTime at most.
func (m *Messenger) Flush() {
	written := make(chan struct{})
	m.send(message{written: written})
	select {
	case <-written:
	case <-time.After(flushTime):
	}
}

// Live reports whether stderr can show a live line.
func (m *Messenger) Live() bool { return m.live }

// Fits reports whether a live line is shown whole.
func (m *Messenger) Fits(line string) bool { return Fit(line, m.out) == line }

// Close waits until the queued messages are written, for CloseTime at most. Later messages are
// not written.
func (m *Messenger) Close() {
	m.end.Do(func() {
		m.begin.Do(func() { close(m.written) }) // there was no message
		m.send(message{last: true})
		select {
		case <-m.written:
		case <-time.After(CloseTime):
		}
	})
}

func (m *Messenger) send(msg message) {
	m.begin.Do(func() { m.writer.Go(m.write) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(&msg)
	m.wake()
}

// sendLater queues a line of a log. On a busy log it is written together with the lines that
// follow within logDelay.
func (m *Messenger) sendLater(msg *message) {
	m.begin.Do(func() { m.writer.Go(m.write) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(msg)
	switch wait := logDelay - time.Since(m.wrote); {
	case m.delayed:
	case wait <= 0: // the log is not busy
		m.wrote = time.Now()
		m.wake()
	default:
		m.delayed = true
		m.late.Reset(wait)
	}
}

// put queues msg, or drops it if there is no room. The caller holds m.mu.
func (m *Messenger) put(msg *message) {
	if len(m.queue)+m.writing >= m.limit && !msg.last {
		if msg.isLine() {
			m.dropped++
			m.lost++
		}
		return
	}
	m.sayDropped()
	m.queue = append(m.queue, *msg)
}

// wake makes the writer look at the queue.
func (m *Messenger) wake() {
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// sayDropped queues a line that says how many lines were dropped since the last message.
// The caller holds m.mu.
func (m *Messenger) sayDropped() {
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

// next takes all messages off the queue, and leaves it room, an empty slice, to fill. It blocks
// until there is a message.
func (m *Messenger) next(room []message) []message {
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

// write writes the queued messages, up to the one that is marked last.
func (m *Messenger) write() {
	defer close(m.written)
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
		clear(next) // so that records can be garbage collected
		if room = next[:0]; cap(room) > roomKept {
			room = nil
		}
	}
}

// writeAtOnce writes messages in one write. All but the last must be lines.
func (m *Messenger) writeAtOnce(messages []message) {
	if m.shown {
		m.text.WriteString(EraseLine)
	}
	lines := 0
	for i := range messages {
		m.format(&messages[i])
		if messages[i].isLine() {
			lines++
		}
	}
	var err error
	child.WithoutTTOU(func() { _, err = m.text.WriteTo(m.out) }) // a leasectl that is stopped renews nothing
	if err != nil {                                              // nowhere to report it
		m.mu.Lock()
		m.lost += lines // not m.dropped: a line about them would fail, too
		m.mu.Unlock()
	}
	m.text.Reset()
	last := messages[len(messages)-1]
	m.shown = last.live != ""
	if last.written != nil {
		close(last.written)
	}
}

// format appends the output of msg to m.text.
func (m *Messenger) format(msg *message) {
	switch {
	case msg.line != "":
		fmt.Fprintln(&m.text, msg.line)
	case msg.log != nil:
		msg.log.Handle(context.Background(), msg.record) // a buffer never fails
	case msg.live != "":
		m.text.WriteString(Fit(msg.live, m.out))
	}
}
