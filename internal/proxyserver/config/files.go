package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/leasectl/leasectl/internal/own"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

// PoolsFrom returns the source for a file of pools: see [ParsePools]. warn is called for each
// warning, also if the file has errors, and if other users may change it. apply is called if the file has no errors.
func PoolsFrom(flag, file string, warn func(Warning), apply func([]pool.Config) error) *Source {
	return &Source{Name: flag, Files: []string{file}, Apply: func(texts [][]byte) error {
		warnOfOthers(file, "", warn)
		pools, warnings, err := ParsePools(file, texts[0])
		for _, w := range warnings {
			warn(w)
		}
		if err != nil {
			return err
		}
		return apply(pools)
	}}
}

// TokensFrom returns the source for a file of tokens: see [ParseTokens]. warn is called if
// other users may read the file, or change it. apply is called if the file has no errors.
func TokensFrom(flag, file string, warn func(Warning), apply func([]auth.Token) error) *Source {
	return &Source{Name: flag, Files: []string{file}, Apply: func(texts [][]byte) error {
		warnOfOthers(file, "tokens", warn)
		tokens, err := ParseTokens(file, texts[0])
		if err != nil {
			return err
		}
		return apply(tokens)
	}}
}

// AuthFrom returns the source for a file that says who may ask, and for the secrets that it names:
// see [ParseAuth]. warn is called if other users may read the secrets, or change any of the files. apply is called if the file
// has no errors.
func AuthFrom(flag, file string, warn func(Warning), apply func(auth.Config) error) *Source {
	s := &Source{Name: flag, Files: []string{file}}
	s.more = func(text []byte) []string { return secretFiles(file, text) }
	s.Apply = func(texts [][]byte) error {
		warnOfOthers(file, "", warn)
		secrets := make(map[string][]byte)
		for i, secret := range s.more(texts[0]) {
			warnOfOthers(secret, "tokens", warn)
			secrets[secret] = texts[i+1]
		}
		c, err := ParseAuth(file, texts[0], secrets)
		if err != nil {
			return err
		}
		return apply(c)
	}
	return s
}

// warnOfOthers warns if other users may change a file, or see the secret that it holds; "" is none.
func warnOfOthers(file, holds string, warn func(Warning)) {
	info, err := os.Stat(file)
	if err != nil {
		return
	}
	text := openToOthers(info, holds, os.Geteuid())
	if owner := own.OwnerOf(info); !own.Ours(owner) {
		text = fmt.Sprintf("it belongs to user %d, who can change it: give it to root, or to the server's user", owner.User)
	}
	if text != "" {
		warn(Warning{File: file, Text: text})
	}
}

// openToOthers says what others than a user may do to a file by its mode; "" is nothing. If the user does
// not own the file, its group does not count: the user reads the file by its group, as with a Secret of
// Kubernetes.
func openToOthers(info fs.FileInfo, holds string, user int) string {
	mode := info.Mode().Perm()
	others := mode & 0o077
	if own.OwnerOf(info).User != user {
		others = mode & 0o007
	}
	seen, changed := holds != "" && others&^0o022 != 0, others&0o022 != 0
	switch {
	case seen && changed:
		return fmt.Sprintf("its mode %#o lets others than its owner see and change the %s: chmod 600", mode, holds)
	case seen:
		return fmt.Sprintf("its mode %#o lets others than its owner see the %s: chmod 600", mode, holds)
	case changed && info.Mode().IsRegular():
		return fmt.Sprintf("its mode %#o lets others than its owner change it: chmod go-w", mode)
	}
	return ""
}

// CertificateFrom returns the source for a certificate and its key, in PEM, which it stores in to. warn
// is called if other users may read the key, or change either.
func CertificateFrom(flag, certFile, keyFile string, warn func(Warning), to *Certificate) *Source {
	return &Source{Name: flag, Files: []string{certFile, keyFile}, Apply: func(texts [][]byte) error {
		warnOfOthers(certFile, "", warn)
		warnOfOthers(keyFile, "key", warn)
		if err := to.set(texts[0], texts[1]); err != nil {
			return fmt.Errorf("certificate %s, key %s: %w", certFile, keyFile, err)
		}
		return nil
	}}
}

// Certificate is the TLS certificate of a server. It may change while the server
// serves: connections that begin afterwards see the new one. It is safe for concurrent
// use. The zero Certificate has none yet.
type Certificate struct {
	pair atomic.Pointer[tls.Certificate]
}

// set stores a certificate and its key, in PEM, if they belong together.
func (c *Certificate) set(cert, key []byte) error {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	c.pair.Store(&pair)
	return nil
}

// Leaf returns the certificate itself; nil if there is none yet.
func (c *Certificate) Leaf() *x509.Certificate {
	if pair := c.pair.Load(); pair != nil {
		return pair.Leaf
	}
	return nil
}

// TLS returns the configuration of a server with this certificate; nil if there is none yet.
func (c *Certificate) TLS() *tls.Config {
	if c.pair.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
}
