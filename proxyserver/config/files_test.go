package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasectl/leasectl/proxyserver/auth"
)

// A file of tokens that others may read causes a warning. If the file belongs to another user,
// its group does not count: by it the server reads the file, as with a Secret of Kubernetes.
func TestTokensThatOthersRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	for _, tt := range []struct {
		mode    fs.FileMode
		foreign bool
		warns   bool
	}{
		{0o600, false, false}, {0o640, false, true}, {0o604, false, true},
		{0o440, true, false}, {0o644, true, true},
	} {
		if tt.foreign && os.Geteuid() != 0 {
			continue // only root gives a file away
		}
		if err := os.WriteFile(file, []byte("ci token-0123456789abc\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, tt.mode); err != nil {
			t.Fatal(err)
		}
		if tt.foreign {
			if err := os.Chown(file, 65534, os.Getegid()); err != nil {
				t.Fatal(err)
			}
		}
		warned := false
		source := TokensFrom("--tokens", file, func(Warning) { warned = true }, func([]auth.Token) error { return nil })
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := source.Apply([][]byte{text}); err != nil || warned != tt.warns {
			t.Errorf("%v: warned %v (%v)", tt, warned, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
