package main

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// logHandler passes records to a messenger, which formats and writes them. So log lines and other
// messages keep their order, and neither waits for stderr.
type logHandler struct {
	slog.Handler // formats records
	messages     *messenger
}

// newLogHandler makes m the writer of a log. The handler that of makes determines the format, also
// of the line about dropped lines.
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

// droppedLines returns how many lines were dropped, or failed to be written, so far.
func (m *messenger) droppedLines() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}
