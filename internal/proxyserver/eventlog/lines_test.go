package eventlog

import (
	"bytes"
	"io"
	"log/slog"
	"testing"
	"time"
)

// Names and generations look in a line like any other list.
func TestLogLists(t *testing.T) {
	line := func(to func(w io.Writer) slog.Handler, of, at any) string {
		var text bytes.Buffer
		r := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
		r.Add("names", of, "generations", at)
		if err := to(&text).Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	for format, to := range map[string]func(w io.Writer) slog.Handler{
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		for _, of := range [][]string{{}, {"a"}, {"a", "b\"é"}} {
			at := []uint64{1, 1 << 63}[:min(len(of), 2)]
			got, want := line(to, names(of), generations(at)), line(to, of, at)
			if got != want {
				t.Errorf("%s: %s, want %s", format, got, want)
			}
		}
	}
}
