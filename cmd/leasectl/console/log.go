package console

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// logHandler passes records to a Messenger, which formats and writes them. So log lines and other
// messages keep their order, and neither waits for stderr.
type logHandler struct {
	slog.Handler // formats records
	messages     *Messenger
}

// NewLogHandler makes m the writer of a log. The handler that of makes determines the format, also
// of the line about dropped lines.
func NewLogHandler(m *Messenger, of func(w io.Writer) slog.Handler) slog.Handler {
	h := logHandler{of(&m.text), m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit, m.log = LogSize, h.Handler
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

// DroppedLines returns how many lines were dropped, or failed to be written, so far.
func (m *Messenger) DroppedLines() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}
