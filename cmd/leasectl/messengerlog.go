package main

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// logHandler is the handler of a log whose lines are formatted and written by a
// messenger: they keep their order with what is said, and nobody waits for either.
type logHandler struct {
	slog.Handler // formats
	messages     *messenger
}

// newLogHandler makes m the writer of a log in the format of the handler that of
// makes. What m drops is said in that format, too.
func newLogHandler(m *messenger, of func(w io.Writer) slog.Handler) logHandler {
	h := logHandler{of(&m.text), m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit, m.log = logSize, h.Handler
	m.late = time.AfterFunc(logDelay, m.wake)
	return h
}

// Handle implements [slog.Handler]. It never fails.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	h.messages.sendLater(&message{record: r, log: h.Handler})
	return nil
}

// WithAttrs implements [slog.Handler].
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs), h.messages}
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.messages}
}

// droppedLines returns how many lines nobody will read.
func (m *messenger) droppedLines() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}
