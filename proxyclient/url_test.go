package proxyclient

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"http://host", ""},
		{"https://host:8443/prefix", ""},
		{"unix:///run/lease.sock", ""},
		{"ftp://host", "want http://HOST, https://HOST, unix:///PATH"},
		{"local", "want http://HOST, https://HOST, unix:///PATH"},
		{"host:8370/prefix", ""},
		{"http://[::1]", ""},
		{"http://host:", "want a port of 1 to 65535"},
		{"https://[::1]:/prefix", "want a port of 1 to 65535"},
		{"host:0", "want a port of 1 to 65535"},
		{"unix:/run/lease.sock", "want http://HOST, https://HOST, unix:///PATH"},
		{"http:/host:8370", "want http://HOST, https://HOST, unix:///PATH"},
		{"http://user:secret@ho st", "want http://HOST, https://HOST, unix:///PATH"},
		{"http://user:secret@host?x", "has a query or a fragment: want http://HOST, https://HOST, unix:///PATH"},
	} {
		_, err := ParseURL(tt.url)
		if got := text(err); got != tt.want {
			t.Errorf("%q: error %q, want %q", tt.url, got, tt.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A socket may have any path.
func TestSocketURL(t *testing.T) {
	for _, path := range []string{"/run/lease.sock", "/a b/c", "/100%/x", "/a%20b", "/what?/x", "/#1", "/ü"} {
		u, err := ParseURL(SocketURL(path))
		if err != nil || u.Path != path {
			t.Errorf("%q: %v, %v", path, u, err)
		}
	}
}

func TestShortLine(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{" a\x1b[2J\n\nb\t", "a [2J b"},
		{strings.Repeat("a", maxText), strings.Repeat("a", maxText)},
		{strings.Repeat("a", maxText-1) + "ü", strings.Repeat("a", maxText-1) + "…"}, // not half of it
		{strings.Repeat("a", maxText-3) + "𝛼b", strings.Repeat("a", maxText-3) + "…"},
		{strings.Repeat("a", maxText-4) + "𝛼b", strings.Repeat("a", maxText-4) + "𝛼…"},
		{strings.Repeat("\xa0", 2*maxText), "?…"},
	} {
		if got := shortLine(tt.text); got != tt.want {
			t.Errorf("%.20q… of %d bytes: %q, want %q", tt.text, len(tt.text), got, tt.want)
		}
	}
}
