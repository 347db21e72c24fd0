package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

// Each file that other users may change causes a warning, and a secret that they may read. If the file is
// root's, its group does not count: by it the server reads the file, as with a Secret of Kubernetes.
func TestFilesOfOthers(t *testing.T) {
	const us, root = 1000, 0
	for _, tt := range []struct {
		mode  fs.FileMode
		owner uint32
		holds string
		says  string
	}{
		{0o600, us, "tokens", ""},
		{0o640, us, "tokens", "its mode 0640 lets others than its owner see the tokens: chmod 600"},
		{0o604, us, "key", "its mode 0604 lets others than its owner see the key: chmod 600"},
		{0o440, root, "tokens", ""},
		{0o644, root, "tokens", "its mode 0644 lets others than its owner see the tokens: chmod 600"},
		{0o666, us, "tokens", "its mode 0666 lets others than its owner see and change the tokens: chmod 600"},
		{0o644, us, "", ""},
		{0o664, us, "", "its mode 0664 lets others than its owner change it: chmod go-w"},
		{0o664, root, "", ""},
		{0o646, root, "", "its mode 0646 lets others than its owner change it: chmod go-w"},
		{0o666 | fs.ModeDevice, us, "", ""},
	} {
		if says := openToOthers(file{mode: tt.mode, owner: tt.owner}, tt.holds, us); says != tt.says {
			t.Errorf("%v of %d: %q, want %q", tt.mode, tt.owner, says, tt.says)
		}
	}
}

// file is what the system says of a file.
type file struct {
	fs.FileInfo
	mode  fs.FileMode
	owner uint32
}

func (f file) Mode() fs.FileMode { return f.mode }
func (f file) Sys() any          { return &syscall.Stat_t{Uid: f.owner} }

// Every source warns of every file that it reads.
func TestSourcesWarnOfFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var warned []string
	warn := func(w Warning) { warned = append(warned, filepath.Base(w.File)) }
	pools := write("pools.yaml", "resources: [{type: a, min-count: 1, max-count: 1}]\n")
	tokens := write("tokens", "ci token-0123456789abc\n")
	rules := write("auth.yaml", "tokens: [{name: a, secret_file: secret}]\n")
	write("secret", "token-0123456789abc\n")
	cert, key := write("tls.crt", ""), write("tls.key", "")
	writeCertificate(t, cert, key, 1) // which leaves the modes
	sources := []*Source{
		PoolsFrom("config", pools, warn, func([]pool.Config) error { return nil }),
		TokensFrom("tokens", tokens, warn, func([]auth.Token) error { return nil }),
		AuthFrom("auth", rules, warn, func(auth.Config) error { return nil }),
		CertificateFrom("tls-cert", cert, key, warn, new(Certificate)),
	}
	if err := Start(t.Context(), sources, warn); err != nil {
		t.Fatal(err)
	}
	if want := []string{"pools.yaml", "tokens", "auth.yaml", "secret", "tls.crt", "tls.key"}; !slices.Equal(warned, want) {
		t.Errorf("warned of %v, want %v", warned, want)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	var text string
	if err := errors.Join(os.Chmod(pools, 0o600), os.Chown(pools, 65532, -1)); err != nil {
		t.Fatal(err)
	}
	warnOfOthers(pools, "", func(w Warning) { text = w.Text })
	if want := "it belongs to user 65532, who can change it: give it to root, or to the server's user"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}
