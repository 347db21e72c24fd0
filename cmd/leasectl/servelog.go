package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/leasectl/leasectl/cmd/leasectl/console"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

// openLog makes the log of serve, whose lines all have the given format. Logging never waits for a
// reader.
func (a *app) openLog(format string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: a.logLevel()}
	return slog.New(console.NewLogHandler(a.messages, func(w io.Writer) slog.Handler {
		if format == "json" {
			return slog.NewJSONHandler(visibleJSON{w}, opts)
		}
		return slog.NewTextHandler(w, opts)
	}))
}

// visibleJSON writes JSON with invisible characters as escapes, as the text format does. Owners, keys and the like
// are chosen by jobs, and some characters turn the direction of what follows on a terminal.
type visibleJSON struct{ to io.Writer }

// Write implements [io.Writer].
func (v visibleJSON) Write(line []byte) (int, error) {
	invisible := func(r rune) bool { return r >= '\x7f' && !unicode.IsPrint(r) }
	if !bytes.ContainsFunc(line, invisible) {
		return v.to.Write(line)
	}
	var escaped []byte
	for _, r := range string(line) {
		if !invisible(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	if _, err := v.to.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}

func (a *app) logLevel() slog.Level {
	switch {
	case a.quiet:
		return slog.LevelWarn
	case a.verbose:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// logFailure writes err to a JSON log, where a line of another format would be lost. It returns an
// error with the same exit code and no text. With another format it returns err.
func logFailure(log *slog.Logger, format string, err error) error {
	if err == nil || err.Error() == "" || format != "json" {
		return err
	}
	log.Error("serve failed", "error", err)
	return statusError{code: exitStatus(err)}
}

// asksForJSONLog reports whether args, which are those of serve, ask for a log in JSON. Errors in
// other args are then logged in JSON, too.
func asksForJSONLog(args []string) bool {
	format := os.Getenv("LEASECTL_LOG_FORMAT")
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--log-format="); ok {
			format = value
		} else if arg == "--log-format" && i+1 < len(args) {
			format = args[i+1]
		}
	}
	return format == "json"
}

// log logs a message about what is served. The addresses are on lines of their own.
func (s *settings) log(message string, o *serveOptions) {
	data := o.data
	if data == "" {
		data = "in memory"
	}
	tokens := 0
	if a := s.options.Auth; a != nil {
		tokens = len(a.Tokens)
	}
	s.options.Log.Info(message, "version", version(), "data", data, "pools", poolSizes(s.options.Pools),
		"tokens", tokens, issuersOf(s.auth), "tls", o.tlsCert != "")
}

// issuersOf names the issuers whose tokens are accepted. Handlers leave it out if there are none.
func issuersOf(c auth.Config) slog.Attr {
	if len(c.Issuers) == 0 {
		return slog.Attr{}
	}
	var names []string
	for _, i := range c.Issuers {
		names = append(names, i.URL)
	}
	return slog.Any("issuers", names)
}

// poolSizes names pools with their capacities.
func poolSizes(pools []pool.Config) []string {
	sizes := make([]string, len(pools))
	for i, p := range pools {
		sizes[i] = fmt.Sprintf("%s=%d", p.Type, p.Capacity())
	}
	return sizes
}

// logStop logs that the server has stopped, and why.
func logStop(ctx context.Context, log *slog.Logger, err error) {
	cause := "idle"
	switch {
	case err != nil:
		cause = err.Error()
	case context.Cause(ctx) != nil:
		cause = context.Cause(ctx).Error()
	}
	log.Info("stopped", "cause", cause)
}
