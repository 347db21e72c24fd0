package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"
)

// A log in JSON has the texts of jobs as they are, and no invisible character.
func TestVisibleJSON(t *testing.T) {
	const owner = "a\u202eb\u2066\u200b\u2028\u00a0\x7f\U000e0041é日"
	var line bytes.Buffer
	slog.New(slog.NewJSONHandler(visibleJSON{&line}, nil)).Info("granted", "owner", owner)
	var read struct{ Owner string }
	if err := json.Unmarshal(line.Bytes(), &read); err != nil || read.Owner != owner {
		t.Errorf("%q, %v, want %q", read.Owner, err, owner)
	}
	text := strings.TrimSuffix(line.String(), "\n")
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || !strings.Contains(text, "é日") {
		t.Errorf("%q at %d", text, i)
	}
}
