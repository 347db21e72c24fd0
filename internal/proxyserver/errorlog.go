package proxyserver

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// errorLog logs the messages of net/http, one with each Write, as warnings. Anybody who can
// connect could fill the log with failed TLS handshakes. So each kind of failure has one
// warning a minute; all others, and clients that just disconnect, are for debugging only.
type errorLog struct {
	*slog.Logger

	mu       sync.Mutex
	since    time.Time       // when the minute began
	kinds    map[string]bool // of failures that have had a warning since
	unlogged int             // failures without a warning since the last one
}

// mostKinds bounds the kinds of failures with a warning in a minute: a client chooses part
// of the text, and so can make up kinds.
const mostKinds = 10

// newErrorLog returns the log that net/http takes.
func newErrorLog(to *slog.Logger) *log.Logger {
	return log.New(&errorLog{Logger: to, kinds: make(map[string]bool)}, "", 0)
}

// Write implements [io.Writer].
func (l *errorLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if !strings.HasPrefix(text, "http: TLS handshake error from ") {
		l.Warn(text)
		return len(line), nil
	}
	level, unlogged := l.handshake(text[strings.LastIndex(text, ": ")+2:])
	l.LogAttrs(context.Background(), level, text, unlogged)
	return len(line), nil
}

// handshake returns the level of a failed handshake of a kind, and for a warning how many
// failures had none since the last one.
func (l *errorLog) handshake(kind string) (level slog.Level, unlogged slog.Attr) {
	switch kind {
	case "EOF", "connection reset by peer", "broken pipe":
		return slog.LevelDebug, unlogged
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.since) >= time.Minute {
		l.since = now
		clear(l.kinds)
	}
	if l.kinds[kind] || len(l.kinds) == mostKinds {
		l.unlogged++
		return slog.LevelDebug, unlogged
	}
	l.kinds[kind] = true
	if l.unlogged > 0 {
		unlogged = slog.Int("unlogged", l.unlogged)
		l.unlogged = 0
	}
	return slog.LevelWarn, unlogged
}
