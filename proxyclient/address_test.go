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

// A comma separates two URLs only before a scheme. Each address has a text that means the same
// address.
func TestParseAddress(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // the parsed text, or the error
	}{
		{"a:1", "http://a:1"},
		{"HTTPS://A:443/Prefix/", "https://a/Prefix"},
		{"http://a:443", "http://a:443"},
		{"http://[::1]:80", "http://[::1]"},
		{"http://[FE80::1%25Eth0]:80", "http://[FE80::1%25Eth0]"},
		{"http://a:1,https://b/p", "http://a:1,https://b/p"},
		{"http://a:1,HTTP://A:1/", "http://a:1"},
		{"http://u:p,q@a", "http://u:p,q@a"},
		{"http://u,v:p,q@a,http://u:,http:@b", "http://u,v:p,q@a,http://u:,http%3A@b"},
		{"http://u:p%2C%2Fx@a", "http://u:p,%2Fx@a"},
		{"http://a/p%2Cq,https://b", "http://a/p%2Cq,https://b"},
		{"http://a/p%2Chttp:%2F%2Fb", "http://a/p%2Chttp:%2F%2Fb"},
		{"unix:///run/a,b", "unix:///run/a%2Cb"},
		{"unix:///run/a,http:/b", "unix:///run/a%2Chttp:/b"},
		{"unix:///run/a%2Chttp:%2F%2Fb", "unix:///run/a%2Chttp:/b"},

		{"http://a,b", errScheme.Error()},
		{"http://a:1,b:2", errScheme.Error()},
		{"a,b", errScheme.Error()},
		{"a:1,http://b", errScheme.Error()},
		{"http://a/,b/", errScheme.Error()},
		{"http://u:p@a,b", errScheme.Error()},
		{"http://a,", errScheme.Error()},
		{"http://a,,http://b", errScheme.Error()},
		{",http://a", ErrURL.Error()},
		{"http://a,local", errScheme.Error()},
		{"http://a,local:///d", ErrURL.Error()},
		{"http://a,ftp://b", ErrURL.Error()},
		{"http://a,http://", ErrURL.Error()},
		{"http://a,unix:///s", errSocket.Error()},
		{"unix:///s,http://a", errSocket.Error()},
	} {
		a, err := ParseAddress(tt.text)
		if err != nil {
			if err.Error() != tt.want {
				t.Errorf("%s: error %q, want %q", tt.text, err, tt.want)
			}
			continue
		}
		if a.String() != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, a, tt.want)
		}
		if again, err := ParseAddress(a.String()); err != nil || again.String() != a.String() || again.Socket() != a.Socket() {
			t.Errorf("%s: its text means %v, %v", tt.text, again, err)
		}
	}
}

func TestOverlaps(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"http://a,http://b", "http://c,http://B/", true},
		{"http://a,http://b", "http://c", false},
		{"http://u:a,x@h:1", "http://u:a,x@h:2", false},
		{"http://u:a,x@h:1,http://g", "http://g,http://u:a,y@h:1", true},
		{"unix:///s/a,b", "unix:///s/a%2Cb", true},
		{"unix:///s/a,b", "unix:///s/a", false},
	} {
		a, errA := ParseAddress(tt.a)
		b, errB := ParseAddress(tt.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.Overlaps(b) != tt.want || b.Overlaps(a) != tt.want {
			t.Errorf("%s and %s: overlap is not %v", tt.a, tt.b, tt.want)
		}
	}
}

// A socket may have any path.
func TestSocketAddress(t *testing.T) {
	for _, path := range []string{"/run/lease.sock", "/a b/c", "/100%/x", "/a%20b", "/what?/x", "/#1", "/ü", "/a,b", "/a,http:/b"} {
		a := SocketAddress(path)
		if again, err := ParseAddress(a.String()); err != nil || a.Socket() != path || again.Socket() != path {
			t.Errorf("%q: %v, %v, %v", path, a, again, err)
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

// What is shown of an address has no password, also if the password made it no address, or a part of its path.
func TestRedacted(t *testing.T) {
	for text, want := range map[string]string{
		"http://me:secret@host":                   "http://me:xxxxx@host",
		"http://me:secret@a,https://you:secret@b": "http://me:xxxxx@a,https://you:xxxxx@b",
		"me:secret@host":                          "http://me:xxxxx@host",
		"http://me:top#secret@host":               "http://me:xxxxx@host",
		"http://me:top?secret@host":               "http://me:xxxxx@host",
		"http://me:top/secret@host":               "http://me:xxxxx@host",
		"http://me:1/secret@host":                 "http://me:xxxxx@host",
		"http://me:t@p://secret@host:99999":       "http://me:xxxxx@host:99999",
		"http://me:secret@host:99999":             "http://me:xxxxx@host:99999",
		"http://me:100%secret@host":               "http://me:xxxxx@host",
		"http://a:80,http://me:top#secret@b":      "http://a:xxxxx@b",
		"me:top#secret@host":                      "me:xxxxx@host",
		"me:top://secret@host":                    "me:xxxxx@host",
		"http:/me:secret@host":                    "http:xxxxx@host",
		"unix:///run/a:b@c":                       "unix:///run/a:b@c",
		"http://host:99999":                       "http://host:99999",
		"ftp://me@host":                           "ftp://me@host",
		"http://host:8370/p":                      "http://host:8370/p",
		"":                                        "",
	} {
		if got := Redacted(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
