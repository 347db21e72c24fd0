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

// errorLog takes what net/http says, a line with each Write, as warnings. Anybody who
// can connect could fill the log with TLS handshakes that fail, so each kind of failure has one
// line a minute. A client that just goes, such as a probe, is no warning.
type errorLog struct {
	*slog.Logger

	mu       sync.Mutex
	since    time.Time       // when the minute began
	kinds    map[string]bool // of failures that have had a line since
	unlogged int             // failures since the last line
}

// mostKinds is how many kinds of failures have a line in a minute: their texts are in
// part the client's.
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

// handshake returns how a failure of a kind is logged, and how many were not since the last.
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
