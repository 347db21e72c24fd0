package dial

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The user is warned once of a token that others can read on its way to the proxy.
func TestTokenInClearText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for proxy, warned := range map[string]bool{
		"http://leases.example:8370":                     true,
		"leases.example":                                 true,
		"http://user:secret@leases.example":              true,
		"http://10.0.0.1":                                true,
		"https://a.example,http://b.example":             true,
		"https://leases.example":                         false,
		"http://127.0.0.1:8370":                          false,
		"http://[::1]:8370":                              false,
		"http://localhost":                               false,
		"http://LOCALHOST,https://leases.example/prefix": false,
		"unix:///run/lease.sock":                         false,
	} {
		var said said
		d := New(Options{TokenFile: file}, t.TempDir(), &said)
		for range 2 {
			if _, err := d.Running(t.Context(), proxy); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(said); got != 0 && !warned || got != 1 && warned {
			t.Errorf("%s: said %q, want a warning: %v", proxy, said, warned)
		}
		if strings.Contains(fmt.Sprint(said), "secret") {
			t.Errorf("said %q, with a password", said)
		}
		if _, err := New(Options{}, t.TempDir(), &said).Running(t.Context(), proxy); err != nil || warned && len(said) != 1 {
			t.Errorf("%s without a token: said %q (%v)", proxy, said, err)
		}
	}
}

// said are the lines that a Dialer has told the user.
type said []string

func (s *said) Notef(format string, args ...any)  { *s = append(*s, fmt.Sprintf(format, args...)) }
func (s *said) Debugf(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }
