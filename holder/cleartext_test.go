package holder

import (
	"os"
	"path/filepath"
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
		w := newWorld(t)
		w.Holder.dialer.TokenFile = file
		for range 2 {
			if _, err := w.Holder.dialer.running(t.Context(), proxy); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(w.report.lines); got != 0 && !warned || got != 1 && warned {
			t.Errorf("%s: said %q, want a warning: %v", proxy, w.report.lines, warned)
		}
		if w.report.said("secret") {
			t.Errorf("said %q, with a password", w.report.lines)
		}
		w.Holder.dialer.TokenFile = ""
		if _, err := w.otherProcess().dialer.running(t.Context(), proxy); err != nil || warned && len(w.report.lines) != 1 {
			t.Errorf("%s without a token: said %q (%v)", proxy, w.report.lines, err)
		}
	}
}
